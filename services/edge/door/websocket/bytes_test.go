package websocket_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	client "github.com/coder/websocket"
	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

func TestM8BytesOfOneConnection(t *testing.T) {
	t.Parallel()
	// Without a trail: on a busy machine the bus is late with 16 MiB of calls to carry,
	// and calls without a record are refused.
	cfg := edge.Config{Version: "1.2.3", Audit: edge.Audit{Off: true}, Logger: bustest.Logger(t)}
	w := startWith(t, cfg)
	t.Run("requests in flight", func(t *testing.T) {
		t.Parallel()
		s := w.dial(t, "mcp")
		answers := s.texts()
		pad := `{"a":"` + strings.Repeat("x", 500<<10) + `","b":"` + strings.Repeat("x", 400<<10) + `"}`
		// The first 18 are less than 16 MiB together, and the next is not.
		for i := range 19 {
			s.send(edgetest.Call(fmt.Sprint(i+1), "hold", pad))
		}
		if m := edgetest.Read(t, receive(t, "one is refused", answers)); m.Error == nil || string(m.ID) != "19" || m.Error.Data.Reason != "overloaded" {
			t.Errorf("%s %+v", m.ID, m.Error)
		}
		for range 18 {
			receive(t, "a call runs", w.svc.Started)
		}
		w.release(t)
		if m := edgetest.Read(t, receive(t, "one is answered", answers)); m.Text() != "released" {
			t.Errorf("%s %+v", m.ID, m.Error)
		}
		s.send(edgetest.Call("20", "echo", pad))
		if m := edgetest.Read(t, receive(t, "another one is answered", answers)); m.Text() != pad {
			t.Errorf("there is no room again: %+v", m.Error)
		}
	})
	t.Run("M8 requests of 1.0.0 in flight", func(t *testing.T) {
		w := startWith(t, cfg)
		s := w.dial(t, "busbar")
		answers := s.answers()
		pad := `{"a":"` + strings.Repeat("x", 500<<10) + `","b":"` + strings.Repeat("x", 400<<10) + `"}`
		for i := range 19 {
			s.send(fmt.Sprintf(`{"type":"tool_request","id":%d,"data":{"name":"hold","parameters":%s}}`, i+1, pad))
		}
		if m := receive(t, "one is refused", answers); string(m.ID) != "19" || m.Error == nil || m.Error.Data.Reason != "overloaded" || m.Error.Data.Executed != "no" {
			t.Errorf("%s %+v", m.ID, m.Error)
		}
		for range 18 {
			receive(t, "a call runs", w.svc.Started)
		}
		w.release(t)
		if m := receive(t, "one is answered", answers); m.Type != "tool_response" {
			t.Errorf("%+v", m)
		}
		s.send(fmt.Sprintf(`{"type":"tool_request","id":20,"data":{"name":"echo","parameters":%s}}`, pad))
		if m := receive(t, "another one is answered", answers); m.Type != "tool_response" || string(m.ID) != "20" {
			t.Errorf("there is no room again: %s %+v", m.ID, m.Error)
		}
	})
	t.Run("M8 requests in flight of one party over many connections", func(t *testing.T) {
		// A party has half of the budget, 512 KiB.
		cfg := cfg
		cfg.ResultBytes = 1 << 20
		w := startWith(t, cfg)
		pad := `{"a":"` + strings.Repeat("x", 100<<10) + `"}`
		ask := func(s *socket, id int, tool string) {
			s.send(fmt.Sprintf(`{"type":"tool_request","id":%d,"data":{"name":"%s","parameters":%s}}`, id, tool, pad))
		}
		for i := range 5 {
			s := w.dial(t, "busbar")
			answers := s.answers()
			ask(s, i+1, "hold")
			select {
			case <-w.svc.Started:
			case m := <-answers:
				t.Fatalf("call %d is answered with %s %+v", i+1, m.Type, m.Error)
			case <-time.After(bustest.Patience):
				t.Fatalf("call %d does not run", i+1)
			}
		}
		last := w.dial(t, "busbar")
		answers := last.answers()
		ask(last, 6, "hold")
		if m := receive(t, "one is refused", answers); m.Error == nil || m.Error.Data.Reason != "overloaded" || m.Error.Data.Executed != "no" {
			t.Errorf("%s %+v", m.Type, m.Error)
		}
		last.send(`{"type":"tool_request","id":7,"data":{"name":"safe"}}`)
		if m := receive(t, "a call that brings nothing is answered", answers); m.Type != "tool_response" {
			t.Errorf("%+v", m.Error)
		}
		w.release(t)
		for end := time.Now().Add(time.Minute); ; {
			ask(last, 8, "echo")
			if m := receive(t, "an answer", answers); m.Type == "tool_response" {
				break
			} else if time.Now().After(end) {
				t.Fatalf("there is no room again after a minute: %+v", m.Error)
			}
		}
	})
	t.Run("results of requests count by themselves", func(t *testing.T) {
		cfg := cfg
		cfg.ResultBytes = 1 << 20 // a quarter of it for one request
		s := startWith(t, cfg).dial(t, "mcp")
		s.send(edgetest.Initialize(mcp.V20250618))
		_ = s.next()
		for i := range 5 {
			s.send(edgetest.LegacyCall(strconv.Itoa(i+1), "echo", `{"a":"`+strings.Repeat("x", 100<<10)+`"}`))
			if m := edgetest.Read(t, []byte(s.next())); m.Error != nil {
				t.Fatalf("%+v", m.Error)
			}
		}
	})
	t.Run("subscriptions", func(t *testing.T) {
		t.Parallel()
		s := w.dial(t, "mcp")
		s.send(edgetest.Initialize(mcp.V20250618))
		_ = s.next()
		for i := range 18 {
			s.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"resources/subscribe","params":{"uri":"note:///by/%d%s"}}`, i+2, i, strings.Repeat("a", 1980)))
			m := edgetest.Read(t, []byte(s.next()))
			if refused := m.Error != nil && m.Error.Data.Reason == "too_large"; refused != (i > 15) {
				t.Errorf("subscription %d: %+v", i, m.Error)
			}
		}
	})
}

// answers keeps reading, so that pings are answered whatever the test waits for.
func (s *socket) answers() <-chan message {
	c := make(chan message, 64)
	go func() {
		for b := range s.texts() {
			var m message
			if err := json.Unmarshal(b, &m); err != nil {
				s.t.Errorf("%s: %v", b, err)
			}
			c <- m
		}
	}()
	return c
}

// texts are the messages that come. They are read all the time, so that pings are
// answered too.
func (s *socket) texts() <-chan []byte {
	c := make(chan []byte, 64)
	go func() {
		defer close(c)
		for {
			_, b, err := s.Read(context.Background())
			if err != nil {
				if s.t.Context().Err() == nil { // the test is not over
					s.t.Errorf("the connection was closed with %v: %v", client.CloseStatus(err), err)
				}
				return
			}
			c <- b
		}
	}()
	return c
}
