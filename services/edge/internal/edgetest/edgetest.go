// Package edgetest is what the edge's tests have in common: a service with a tool for
// everything that an edge can be asked (Service), a bus with that service and edges
// (World), the messages that ask it (Request, Call), and a client for each door of MCP
// (Conversation), whatever the transport. Start reading at World.
package edgetest

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
)

// Client makes the requests of tests. It has its own connections, because each
// httptest.Server that closes ends the idle connections of http.DefaultClient, which
// other tests may be about to use.
var Client = &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()}

// ReadNothing serves resources that no test reads.
func ReadNothing(context.Context, *service.Call, string, map[string]string) ([]mcp.ResourceContents, error) {
	return nil, nil
}

// Service is a service whose handlers report what they do.
type Service struct {
	*service.Service
	// Calls counts the handlers started.
	Calls atomic.Int64
	// Started receives a value for each call of hold that begins, Ended one for each
	// whose context ends.
	Started, Ended chan struct{}
	// Release lets one call of hold return.
	Release chan struct{}
	// Step lets one call of steps report progress, Leave makes it ask for its client's
	// connection to be closed.
	Step, Leave chan struct{}
}

// New makes the service.
func New(name string) *Service {
	s := &Service{
		Service: service.New(name, service.WithVersion("1.2.3"), service.WithConcurrency(400), service.WithLogger(slog.New(slog.DiscardHandler))),
		Started: make(chan struct{}, 1024), Ended: make(chan struct{}, 1024), Release: make(chan struct{}),
		Step: make(chan struct{}, 16), Leave: make(chan struct{}),
	}
	s.addTools()
	s.addCalls()
	s.addState()
	s.addTasks()
	s.addOthers()
	return s
}

func object(properties string) []byte {
	return []byte(`{"type":"object","properties":{` + properties + `}}`)
}

// add adds a tool that accepts anything and returns JSON.
func (s *Service) add(t service.Tool, f func(ctx context.Context, c *service.Call, in []byte) (*service.Result, error)) {
	if t.InputSchema == nil {
		t.InputSchema = object("")
	}
	t.OutputSchema = nil
	service.AddTool(s.Service, t, func(ctx context.Context, c *service.Call, in []byte) (*service.Result, error) {
		s.Calls.Add(1)
		return f(ctx, c, in)
	})
}

// Text is a result with one text.
func Text(text string) *service.Result {
	return &service.Result{Content: []mcp.Content{mcp.Text(text)}}
}

func (s *Service) addTools() {
	// echo returns its arguments as they arrived, and _meta.
	s.add(service.Tool{Name: "echo", ReadOnly: true}, func(_ context.Context, c *service.Call, in []byte) (*service.Result, error) {
		return &service.Result{Content: []mcp.Content{mcp.Text(string(in))}, Meta: c.Meta()}, nil
	})
	s.add(service.Tool{Name: "safe"}, func(context.Context, *service.Call, []byte) (*service.Result, error) { return Text("safe"), nil })
	s.add(service.Tool{Name: "strict", InputSchema: []byte(`{"type":"object","properties":{"text":{"type":"string"},"n":{"type":"number"}},"required":["text"],"additionalProperties":false}`)},
		func(_ context.Context, _ *service.Call, in []byte) (*service.Result, error) {
			return Text(string(in)), nil
		})
	service.AddTool(s.Service, service.Tool{Name: "number"}, func(_ context.Context, _ *service.Call, in struct {
		N float64 `json:"n"`
	}) (float64, error) {
		s.Calls.Add(1)
		return in.N, nil
	})
	s.add(service.Tool{Name: "mirror", InputSchema: object(
		`"region":{"type":"string","x-mcp-header":"Region"},"size":{"type":"integer","x-mcp-header":"Size"},"dry":{"type":"boolean","x-mcp-header":"Dry"}`)},
		func(_ context.Context, _ *service.Call, in []byte) (*service.Result, error) {
			return Text(string(in)), nil
		})
	s.add(service.Tool{Name: "approved", RequiresUserApproval: true},
		func(context.Context, *service.Call, []byte) (*service.Result, error) { return Text("done"), nil })
	s.add(service.Tool{Name: "approved_flaky", RequiresUserApproval: true, InputSchema: object(`"a":{"type":"integer"}`)}, s.failFirst(fault.Unavailable))
	// kept and shared return how many handlers have started. Their results may be cached;
	// old results for less time than the tool says, or not at all.
	count := func(_ context.Context, call *service.Call, in []byte) (*service.Result, error) {
		switch {
		case strings.Contains(string(in), "soon"):
			call.Expires(time.Now().Add(300 * time.Millisecond))
		case strings.Contains(string(in), "never"):
			call.Expires(time.Time{})
		}
		if strings.Contains(string(in), "fail") {
			return nil, service.Errorf("failed")
		}
		return Text(strconv.FormatInt(s.Calls.Load(), 10)), nil
	}
	s.add(service.Tool{Name: "kept", ReadOnly: true, Cache: 300 * time.Millisecond}, count)
	s.add(service.Tool{Name: "shared", ReadOnly: true, Cache: service.DefaultCache, CacheShared: true}, count)
	s.add(service.Tool{Name: "fails"}, func(context.Context, *service.Call, []byte) (*service.Result, error) {
		return nil, service.Errorf("no such city")
	})
	s.add(service.Tool{Name: "broken"}, func(context.Context, *service.Call, []byte) (*service.Result, error) {
		return nil, errors.New("dial tcp db.internal: secret")
	})
	s.add(service.Tool{Name: "panics"}, func(context.Context, *service.Call, []byte) (*service.Result, error) { panic("secret") })
	s.add(service.Tool{Name: "newlines"}, func(context.Context, *service.Call, []byte) (*service.Result, error) {
		return Text("a\nb\r\nc\u2028d"), nil
	})
}

func (s *Service) hold(ctx context.Context, _ *service.Call, _ []byte) (*service.Result, error) {
	s.Started <- struct{}{}
	select {
	case <-s.Release:
		return Text("released"), nil
	case <-ctx.Done():
		s.Ended <- struct{}{}
		return nil, ctx.Err()
	}
}

const (
	// Hurry is the timeout of the tool hurry.
	Hurry = 2 * time.Second
	// holdTime is the timeout of calls that end when a test says so, however slow the
	// machine is.
	holdTime = 2 * time.Minute
)

func (s *Service) addCalls() {
	s.add(service.Tool{Name: "hold", Timeout: holdTime}, s.hold)
	s.add(service.Tool{Name: "hurry", Timeout: Hurry}, s.hold)
	// progress reports twice, then logs, then answers.
	s.add(service.Tool{Name: "progress"}, func(_ context.Context, c *service.Call, _ []byte) (*service.Result, error) {
		c.Progress(1, 2, "one\nline")
		c.Progress(1, 2, "not more than before")
		c.Progress(2, 2, "")
		c.Log("debug", "test", "too low for most")
		c.Log("error", "te\nst", map[string]string{"text": "two\nlines"})
		return Text("done"), nil
	})
	// steps reports progress at each step, until it is released.
	s.add(service.Tool{Name: "steps", Timeout: holdTime}, func(ctx context.Context, c *service.Call, _ []byte) (*service.Result, error) {
		s.Started <- struct{}{}
		for done := 1; ; {
			select {
			case <-s.Step:
				c.Progress(float64(done), 0, "")
				done++
			case <-s.Leave:
				c.Disconnect(20 * time.Millisecond)
			case <-s.Release:
				return Text("released"), nil
			case <-ctx.Done():
				s.Ended <- struct{}{}
				return nil, ctx.Err()
			}
		}
	})
	// flood reports progress until its context ends or it is released.
	s.add(service.Tool{Name: "flood", Timeout: holdTime}, func(ctx context.Context, c *service.Call, _ []byte) (*service.Result, error) {
		s.Started <- struct{}{}
		text := strings.Repeat("x", 32<<10)
		for i := 1.0; ; i++ {
			c.Progress(i, 0, text)
			select {
			case <-s.Release:
				return Text("released"), nil
			case <-ctx.Done():
				s.Ended <- struct{}{}
				return nil, ctx.Err()
			case <-time.After(5 * time.Millisecond):
			}
		}
	})
	s.add(service.Tool{Name: "busy", ReadOnly: true}, s.failFirst(fault.Overloaded))
	s.add(service.Tool{Name: "busy-effect"}, s.failFirst(fault.Overloaded))
	s.add(service.Tool{Name: "busy-after"}, func(_ context.Context, _ *service.Call, in []byte) (*service.Result, error) {
		var said struct {
			Executed fault.Executed `json:"executed"`
		}
		if err := json.Unmarshal(in, &said); err != nil {
			return nil, err
		}
		return nil, fault.New(fault.Overloaded, "another service is full").Ran(said.Executed)
	})
	s.add(service.Tool{Name: "lost", ReadOnly: true}, s.failFirst(fault.PeerLost))
	s.add(service.Tool{Name: "lost-effect"}, s.failFirst(fault.PeerLost))
	s.add(service.Tool{Name: "ask"}, func(_ context.Context, c *service.Call, _ []byte) (*service.Result, error) {
		answers, err := c.Ask(service.Elicit("name", "Who are\nyou?", map[string]any{"type": "object", "properties": map[string]any{}}))
		if err != nil {
			return nil, err
		}
		action, err := answers.Elicited("name", nil)
		return Text(action), err
	})
	type color struct {
		Color string `json:"color" schema:"enum=red|green"`
	}
	s.add(service.Tool{Name: "color"}, func(_ context.Context, c *service.Call, _ []byte) (*service.Result, error) {
		said, action, err := service.AskFor[color](c, "color", "Which color?")
		return Text(action + " " + said.Color), err
	})
}

// addState adds remember, which asks once and then returns what it remembered.
func (s *Service) addState() {
	remember := func(_ context.Context, c *service.Call, _ []byte) (*service.Result, error) {
		if c.State() == nil {
			c.SetState([]byte("secret"))
		}
		if _, err := c.Ask(service.Elicit("ok", "OK?", map[string]any{"type": "object", "properties": map[string]any{}})); err != nil {
			return nil, err
		}
		return Text("kept " + string(c.State())), nil
	}
	s.add(service.Tool{Name: "remember"}, remember)
	s.add(service.Tool{Name: "remember_approved", RequiresUserApproval: true}, remember)
}

// failFirst fails the first call and every second one after it.
func (s *Service) failFirst(reason fault.Reason) func(context.Context, *service.Call, []byte) (*service.Result, error) {
	var n atomic.Int64
	return func(context.Context, *service.Call, []byte) (*service.Result, error) {
		if n.Add(1)%2 == 1 {
			return nil, fault.New(reason, "first")
		}
		return Text("second"), nil
	}
}

func (s *Service) addOthers() {
	read := func(_ context.Context, _ *service.Call, uri string, vars map[string]string) ([]mcp.ResourceContents, error) {
		s.Calls.Add(1)
		return []mcp.ResourceContents{{URI: uri, MIMEType: "text/plain", Text: "it is " + vars["id"]}}, nil
	}
	s.AddResource(mcp.Resource{URI: "note:///one", Name: "one"}, read)
	s.AddResource(mcp.Resource{URI: "note:///ünïcode", Name: "ünïcode"}, read)
	s.AddResourceTemplate(mcp.ResourceTemplate{URITemplate: "note:///by/{id}", Name: "by id"}, read, map[string]service.CompleteFunc{
		"id": func(context.Context, *service.Call, string, map[string]string) ([]string, error) {
			return []string{"seven"}, nil
		},
	})
	s.AddPrompt(mcp.Prompt{Name: "greet", Arguments: []mcp.PromptArgument{{Name: "who", Required: true}}},
		func(_ context.Context, _ *service.Call, in map[string]string) ([]mcp.PromptMessage, error) {
			s.Calls.Add(1)
			return []mcp.PromptMessage{{Role: "user", Content: mcp.Text("Hello " + in["who"])}}, nil
		}, map[string]service.CompleteFunc{
			"who": func(context.Context, *service.Call, string, map[string]string) ([]string, error) {
				return []string{"Ada"}, nil
			},
		})
}

// Start puts the service on the bus for the length of the test.
func (s *Service) Start(t testing.TB, conn *bus.Conn) {
	t.Helper()
	Serve(t, conn, s.Service)
}

// Serve puts any service on the bus for the length of the test; stop takes it off
// earlier.
func Serve(t testing.TB, conn *bus.Conn, s *service.Service) (stop func()) {
	t.Helper()
	running, err := s.Start(t.Context(), conn)
	if err != nil {
		t.Fatalf("start service %s: %v", s.Name(), err)
	}
	stopped := false
	end := func(within time.Duration) {
		if stopped {
			return
		}
		stopped = true
		ctx, cancel := context.WithTimeout(context.Background(), within)
		defer cancel()
		_ = running.Stop(ctx) // running calls are cancelled
	}
	t.Cleanup(func() { end(100 * time.Millisecond) })
	// A test that continues waits until edges hear that the service has gone. If its time
	// is over before it has said so, that takes them 15 s.
	return func() { end(2 * time.Second) }
}
