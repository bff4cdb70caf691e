package tenants

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/mcp"
)

// never is an id that never was, of the same length as another.
func never(id string) string {
	if strings.HasSuffix(id, "A") {
		return id[:len(id)-1] + "B"
	}
	return id[:len(id)-1] + "A"
}

// initialize is the message of a client that can be asked.
const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"elicitation":{}},"clientInfo":{"name":"c","version":"1"}}}`

// session opens one, and returns its id.
func (w *world) session(t *testing.T, token string) string {
	t.Helper()
	a := w.do(t, token, "POST", "/mcp", initialize)
	id := a.header.Get(mcp.HeaderSessionID)
	if id == "" {
		t.Fatalf("%s: %d %s", token, a.status, a.body)
	}
	return id
}

// in are the headers of a request within a session.
func in(session string) []string {
	return []string{mcp.HeaderSessionID, session, mcp.HeaderProtocolVersion, mcp.V20250618}
}

func TestSessions(t *testing.T) {
	w := together.Use(t)
	t.Parallel()
	id := w.session(t, ada)
	if a := w.do(t, again, "POST", "/mcp", legacy("1", "ping", ""), in(id)...); a.status != http.StatusOK {
		t.Errorf("another token of the same principal: %d %s", a.status, a.body)
	}
	s := w.stream(t, 0, ada, "POST", "/mcp", legacy("5", "tools/call", `"name":"slow","arguments":{"key":"s","ms":2000,"steps":20},"_meta":{"progressToken":"p"}`), in(id)...)
	event := strings.TrimSpace(strings.SplitN(s.until("id:"), "id:", 2)[1])
	for _, token := range strangers {
		for what, try := range map[string]func(session string) answer{
			"a call": func(session string) answer {
				return w.do(t, token, "POST", "/mcp", legacy("2", "tools/call", `"name":"who","arguments":{}`), in(session)...)
			},
			"ping": func(session string) answer {
				return w.do(t, token, "POST", "/mcp", legacy("2", "ping", ""), in(session)...)
			},
			"tools/list": func(session string) answer {
				return w.do(t, token, "POST", "/mcp", legacy("2", "tools/list", ""), in(session)...)
			},
			"logging/setLevel": func(session string) answer {
				return w.do(t, token, "POST", "/mcp", legacy("2", "logging/setLevel", `"level":"debug"`), in(session)...)
			},
			"resources/subscribe": func(session string) answer {
				return w.do(t, token, "POST", "/mcp", legacy("2", "resources/subscribe", `"uri":"note://x"`), in(session)...)
			},
			"notifications/cancelled": func(session string) answer {
				return w.do(t, token, "POST", "/mcp", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`, in(session)...)
			},
			"GET":    func(session string) answer { return w.do(t, token, "GET", "/mcp", "", in(session)...) },
			"DELETE": func(session string) answer { return w.do(t, token, "DELETE", "/mcp", "", in(session)...) },
			"GET with Last-Event-ID": func(session string) answer {
				return w.do(t, token, "GET", "/mcp", "", append(in(session), "Last-Event-ID", event)...)
			},
		} {
			asUnknown(t, what+" in a session of another", token, id, never(id), try)
		}
	}
	// In a session of their own, they come back for another's stream: nothing of it.
	for _, token := range []string{bob, amy} {
		own := w.session(t, token)
		asUnknown(t, "the stream of another's call", token, event, "X"+event[1:], func(event string) answer {
			return w.do(t, token, "GET", "/mcp", "", append(in(own), "Last-Event-ID", event)...)
		})
	}
	if got := s.until(`"id":5`); !strings.Contains(got, `"runs":1`) && !strings.Contains(got, `runs\":1`) {
		t.Errorf("her own call came to %s", got)
	}
	if a := w.do(t, ada, "DELETE", "/mcp", "", in(id)...); a.status >= 300 {
		t.Errorf("her own DELETE: %d %s", a.status, a.body)
	}
}

// socket is a WebSocket.
type socket struct {
	t    *testing.T
	conn *websocket.Conn
}

func (w *world) socket(t *testing.T, token, path, protocol string) *socket {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bustest.Patience)
	defer cancel()
	var protocols []string
	if protocol != "" {
		protocols = []string{protocol}
	}
	conn, _, err := websocket.Dial(ctx, "ws://"+w.edges[0].host+path, &websocket.DialOptions{
		HTTPClient: w.client, HTTPHeader: http.Header{"Authorization": {"Bearer " + token}}, Subprotocols: protocols,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.CloseNow() })
	return &socket{t, conn}
}

func (s *socket) send(message string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), bustest.Patience)
	defer cancel()
	if err := s.conn.Write(ctx, websocket.MessageText, []byte(message)); err != nil {
		s.t.Fatal(err)
	}
}

// until reads messages up to one with a text, which it returns.
func (s *socket) until(text string) answer {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), bustest.Patience)
	defer cancel()
	for {
		_, message, err := s.conn.Read(ctx)
		if err != nil {
			s.t.Fatalf("no %q: %v", text, err)
		}
		if strings.Contains(string(message), text) {
			return answer{body: string(message)}
		}
	}
}

// question is a question that somebody was asked, and how it is answered.
type question struct {
	id string
	// answer is the owner's answer; done waits for its outcome.
	answer func(message string)
	done   func()
}

// askers ask ada whether a call may run, over each connection that she can be asked
// over.
var askers = map[string]func(t *testing.T, w *world, key string) question{
	"streamable": func(t *testing.T, w *world, key string) question {
		id := w.session(t, ada)
		var s *stream
		asked := asks(t, func() answer {
			s = w.stream(t, 0, ada, "POST", "/mcp", approved(key), in(id)...)
			return s.data(`"id":`)
		})
		return question{asked, func(m string) { w.do(t, ada, "POST", "/mcp", m, in(id)...) }, func() { s.until(`"id":5`) }}
	},
	"websocket": func(t *testing.T, w *world, key string) question {
		s := w.socket(t, ada, "/ws", "mcp")
		s.send(initialize)
		s.until(`"id":1`)
		s.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		asked := asks(t, func() answer {
			s.send(approved(key))
			return s.until(`"id":`)
		})
		return question{asked, s.send, func() { s.until(`"id":5`) }}
	},
	"sse": func(t *testing.T, w *world, key string) question {
		s := w.stream(t, 0, ada, "GET", "/sse", "")
		path := s.data("/messages").body
		post := func(m string) { w.do(t, ada, "POST", path, m) }
		heard(t, func() answer {
			post(initialize)
			return s.data(`"id":1`)
		})
		post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		asked := asks(t, func() answer {
			post(approved(key))
			return s.data(`"id":`)
		})
		return question{asked, post, func() { s.until(`"id":5`) }}
	},
}

// asks returns the id of the question that she is asked after a call. A call during which NATS was
// not heard is made again.
func asks(t *testing.T, call func() answer) string {
	t.Helper()
	a := heard(t, call)
	if !a.says("elicitation/create") {
		t.Fatalf("she is not asked: %s", a.body)
	}
	return a.member("id")
}

func approved(key string) string {
	return legacy("5", "tools/call", `"name":"approved","arguments":{"key":"`+key+`"}`)
}

// A question is answered over the session or connection that was asked, and by nobody else who
// knows its id.
func TestM4QuestionsAnsweredByWhoWasAsked(t *testing.T) {
	w := together.Use(t)
	t.Parallel()
	for way, ask := range askers {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			key := "M4 " + way
			q := ask(t, w, key)
			yes := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{"approve":true}}}`, quoted(q.id))
			no := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-1,"message":"no"}}`, quoted(q.id))
			for _, message := range []string{yes, no} {
				for _, token := range []string{bob, amy, ada, nobody} {
					w.do(t, token, "POST", "/mcp", message)
					if token == nobody {
						continue
					}
					w.do(t, token, "POST", "/mcp", message, in(w.session(t, token))...)
					s := w.socket(t, token, "/ws", "mcp")
					s.send(message) // without a session
					s.send(legacy("8", "ping", ""))
					s.until(`"id":8`)
					s = w.socket(t, token, "/ws", "mcp")
					s.send(initialize)
					s.until(`"id":1`)
					s.send(message)
					s.send(legacy("8", "ping", ""))
					s.until(`"id":8`)
					e := w.stream(t, 0, token, "GET", "/sse", "")
					path := e.data("/messages").body
					w.do(t, token, "POST", path, initialize)
					w.do(t, token, "POST", path, message)
					w.do(t, token, "POST", path, legacy("8", "ping", ""))
					e.until(`"id":8`)
					e.close()
				}
			}
			if n := w.ledger.Runs(key); n != 0 {
				t.Fatalf("somebody else's answer had it run %d times", n)
			}
			q.answer(yes)
			q.done()
			if n := w.ledger.Runs(key); n != 1 {
				t.Errorf("her own answer had it run %d times", n)
			}
		})
	}
}

// quoted is an id as JSON: strings come without their quotes.
func quoted(id string) string {
	if strings.Trim(id, "0123456789") == "" {
		return id
	}
	return `"` + id + `"`
}

// A post to a stream is taken from the principal who opened it, whatever its token.
func TestM5PostsOfThePrincipal(t *testing.T) {
	w := together.Use(t)
	t.Parallel()
	s := w.stream(t, 0, ada, "GET", "/sse", "")
	path := s.data("/messages").body
	for _, token := range strangers {
		asUnknown(t, "a post to another's stream", token, path, path[:len(path)-1]+map[bool]string{true: "0", false: "1"}[path[len(path)-1] == '1'], func(path string) answer {
			return w.do(t, token, "POST", path, legacy("1", "ping", ""))
		})
	}
	if a := w.do(t, again, "POST", path, legacy("2", "ping", "")); a.status != http.StatusAccepted {
		t.Errorf("a renewed token: %d %s", a.status, a.body)
	}
	if heard := s.until(`"id":2`); strings.Contains(heard, `"id":1`) {
		t.Errorf("a stranger's post was carried out: %s", heard)
	}
}
