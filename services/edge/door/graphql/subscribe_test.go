package graphql_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/busbar-mcp/busbar/services/edge"
	"github.com/busbar-mcp/busbar/services/edge/door"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

func TestSubscriptions(t *testing.T) {
	t.Parallel()
	w := start(t)
	t.Run("a tool's progress and result", func(t *testing.T) {
		t.Parallel()
		s := w.open(t)
		s.subscribe("p", `subscription { executeTool(input: {name: "progress"}) { progress { progress total message } log { level logger data } result { content { text } is_error } } }`)
		for _, event := range []string{
			`"progress":{"progress":1,"total":2,"message":"one\nline"},"log":null,"result":null`,
			`"progress":{"progress":1,"total":2,"message":"not more than before"},"log":null,"result":null`,
			`"progress":{"progress":2,"total":2,"message":null},"log":null,"result":null`,
			`"progress":null,"log":{"level":"error","logger":"te\nst","data":{"text":"two\nlines"}},"result":null`,
			`"progress":null,"log":null,"result":{"content":[{"text":"done"}],"is_error":false}`,
		} {
			s.Expect(`{"id":"p","type":"next","payload":{"data":{"executeTool":{` + event + `}}}}`)
		}
		s.Expect(`{"id":"p","type":"complete"}`)
	})
	t.Run("a call that fails", func(t *testing.T) {
		t.Parallel()
		s := w.open(t)
		s.subscribe("f", `subscription { executeTool(input: {name: "nope"}) { result { is_error } } }`)
		if m := s.Next(); !strings.Contains(m, `"reason":"unknown_tool"`) || !strings.Contains(m, `"code":"NOT_FOUND"`) || !strings.Contains(m, `"type":"next"`) {
			t.Error(m)
		}
		s.Expect(`{"id":"f","type":"complete"}`)
	})
	t.Run("updates of a resource", func(t *testing.T) {
		t.Parallel()
		s := w.open(t)
		s.subscribe("u", `subscription { resourceUpdated(uri: "note:///by/1") { uri } }`)
		stop := w.updates("note:///by/2", "note:///by/1")
		s.Expect(`{"id":"u","type":"next","payload":{"data":{"resourceUpdated":{"uri":"note:///by/1"}}}}`)
		stop()
		s.Send(`{"id":"u","type":"complete"}`)
		s.subscribe("x", `subscription { resourceUpdated(uri: "example://nope") { uri } }`)
		m := s.Next()
		for strings.Contains(m, `"id":"u"`) {
			m = s.Next()
		}
		if !strings.Contains(m, `"type":"error"`) || !strings.Contains(m, `"code":"NOT_FOUND"`) {
			t.Error(m)
		}
	})
	t.Run("queries and mutations, concurrently", func(t *testing.T) {
		t.Parallel()
		s := w.open(t)
		s.subscribe("slow", `mutation { executeTool(input: {name: "hold"}) { content { text } } }`)
		edgetest.Receive(t, "it runs", w.Svc.Started)
		s.subscribe("fast", `{ getTool(name: "safe") { name } }`)
		s.Expect(`{"id":"fast","type":"next","payload":{"data":{"getTool":{"name":"safe"}}}}`)
		s.Expect(`{"id":"fast","type":"complete"}`)
		w.Svc.Release <- struct{}{}
		s.Expect(`{"id":"slow","type":"next","payload":{"data":{"executeTool":{"content":[{"text":"released"}]}}}}`)
		s.Expect(`{"id":"slow","type":"complete"}`)
	})
	t.Run("refused before anything runs", func(t *testing.T) {
		t.Parallel()
		s := w.open(t)
		for _, query := range []string{aliases(16), `{ nope }`, `{`, `subscription { a: resourceUpdated(uri: "x") { uri } b: resourceUpdated(uri: "y") { uri } }`} {
			s.subscribe("r", query)
			if m := s.Next(); !strings.Contains(m, `"type":"error"`) || !strings.Contains(m, `"executed":"no"`) {
				t.Error(m)
			}
		}
	})
	t.Run("ping", func(t *testing.T) {
		t.Parallel()
		s := w.open(t)
		s.Send(`{"type":"ping","payload":{"a":1}}`)
		s.Expect(`{"type":"pong","payload":{"a":1}}`)
	})
}

// updates keeps announcing updates of resources until stop is called, because nothing
// shows when a subscription has begun.
func (w *world) updates(uris ...string) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		again := time.NewTicker(5 * time.Millisecond)
		defer again.Stop()
		for {
			for _, uri := range uris {
				w.Svc.ResourceUpdated(uri)
			}
			select {
			case <-again.C:
			case <-done:
				return
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

func TestSubscriptionEnds(t *testing.T) {
	t.Parallel()
	w := start(t)
	call := `subscription { executeTool(input: {name: "hold"}) { result { is_error } } }`
	s := w.open(t)
	s.subscribe("a", call)
	edgetest.Receive(t, "it runs", w.Svc.Started)
	s.Send(`{"id":"a","type":"complete"}`)
	edgetest.Receive(t, "the tool hears that it is given up", w.Svc.Ended)
	s.subscribe("b", call)
	edgetest.Receive(t, "another runs", w.Svc.Started)
	_ = s.CloseNow()
	edgetest.Receive(t, "it ends with its client", w.Svc.Ended)
	t.Run("with the edge", func(t *testing.T) {
		s := w.open(t)
		s.subscribe("u", `subscription { resourceUpdated(uri: "note:///one") { uri } }`)
		stop := w.updates("note:///one")
		s.Next() // the subscription has begun
		stop()
		w.Edge.Server().Close()
		m := s.Next()
		for strings.Contains(m, `"type":"next"`) {
			m = s.Next()
		}
		if m != `{"id":"u","type":"complete"}` {
			t.Errorf("it ends with %s", m)
		}
		s.Closed(websocket.StatusServiceRestart)
	})
}

func TestProtocol(t *testing.T) {
	t.Parallel()
	w := start(t)
	for name, c := range map[string]struct {
		send []string
		code websocket.StatusCode
	}{
		"no handshake":          {[]string{`{"id":"a","type":"subscribe","payload":{"query":"{ __typename }"}}`}, 4401},
		"two handshakes":        {[]string{`{"type":"connection_init"}`, `{"type":"connection_init"}`}, 4429},
		"an unknown message":    {[]string{`{"type":"start"}`}, 4400},
		"no JSON":               {[]string{`{"type":`}, 4400},
		"a member twice":        {[]string{`{"type":"ping","type":"ping"}`}, 4400},
		"no id":                 {[]string{`{"type":"connection_init"}`, `{"type":"subscribe","payload":{"query":"{ __typename }"}}`}, 4400},
		"an id that is in use":  {[]string{`{"type":"connection_init"}`, subscribing("a"), subscribing("a")}, 4409},
		"more than a message":   {[]string{`{"type":"` + strings.Repeat("x", 1<<20) + `"}`}, 1009},
		"text that is no UTF-8": {[]string{"\xff"}, 1007},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := w.dial(t)
			for _, m := range c.send {
				s.Send(m)
			}
			s.Closed(c.code)
		})
	}
	t.Run("more operations than there is room for", func(t *testing.T) {
		t.Parallel()
		s := w.open(t)
		for i := range 65 {
			s.Send(subscribing(fmt.Sprint(i)))
		}
		if m := s.Next(); !strings.Contains(m, `"id":"64"`) || !strings.Contains(m, `"reason":"overloaded"`) {
			t.Error(m)
		}
	})
	guarded := startAs(t, edge.Config{Authenticator: key{}}, door.Guard{Loopback: true})
	for name, c := range map[string]struct {
		w         *world
		protocols []string
		header    http.Header
		status    int
	}{
		"no subprotocol":         {w, nil, nil, 400},
		"the old subprotocol":    {w, []string{"graphql-ws"}, nil, 400},
		"a page of another site": {w, []string{"graphql-transport-ws"}, http.Header{"Origin": {"https://evil.example"}}, 403},
		"no token":               {guarded, []string{"graphql-transport-ws"}, nil, 401},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, resp, err := websocket.Dial(context.WithoutCancel(t.Context()), c.w.url, &websocket.DialOptions{Subprotocols: c.protocols, HTTPHeader: c.header})
			if err == nil || resp == nil || resp.StatusCode != c.status {
				t.Errorf("%v %v", resp, err)
			}
		})
	}
}

func subscribing(id string) string {
	return `{"id":"` + id + `","type":"subscribe","payload":{"query":"subscription { resourceUpdated(uri: \"note:///one\") { uri } }"}}`
}
