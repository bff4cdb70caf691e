package websocket_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/services/edge"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

// Without a trail: on a busy machine the bus is late with 16 MiB of calls to carry, and
// calls without a record are refused.
func withoutTrail(cfg *edge.Config) { cfg.Audit = edge.Audit{Off: true} }

func TestM8BytesOfOneConnection(t *testing.T) {
	t.Parallel()
	pad := `{"a":"` + strings.Repeat("x", 500<<10) + `","b":"` + strings.Repeat("x", 400<<10) + `"}`
	for protocol, call := range map[string]func(id int, tool string) string{
		"mcp": func(id int, tool string) string { return edgetest.Call(fmt.Sprint(id), tool, pad) },
		"busbar": func(id int, tool string) string {
			return fmt.Sprintf(`{"type":"tool_request","id":%d,"data":{"name":"%s","parameters":%s}}`, id, tool, pad)
		},
	} {
		t.Run("requests in flight, "+protocol, func(t *testing.T) { // one after the other: they are large
			w := start(t, nil, withoutTrail)
			s := w.dial(t, protocol)
			answers := s.answers()
			// The first 18 are less than 16 MiB together, and the next is not.
			for i := range 19 {
				s.Send(call(i+1, "hold"))
			}
			if m := edgetest.Receive(t, "one is refused", answers); string(m.ID) != "19" || m.Error == nil || m.Error.Data.Reason != "overloaded" || m.Error.Data.Executed != "no" {
				t.Errorf("%s %+v", m.ID, m.Error)
			}
			for range 18 {
				w.Svc.Running(t)
			}
			w.release(t)
			if m := edgetest.Receive(t, "one is answered", answers); m.Error != nil {
				t.Errorf("%s %+v", m.ID, m.Error)
			}
			s.Send(call(20, "echo"))
			if m := edgetest.Receive(t, "another one is answered", answers); string(m.ID) != "20" || m.Error != nil {
				t.Errorf("there is no room again: %s %+v", m.ID, m.Error)
			}
		})
	}
	t.Run("M8 requests in flight of one party over many connections", func(t *testing.T) {
		// A party has half of the budget, 512 KiB.
		w := start(t, nil, withoutTrail, func(cfg *edge.Config) { cfg.ResultBytes = 1 << 20 })
		pad := `{"a":"` + strings.Repeat("x", 100<<10) + `"}`
		ask := func(s socket, id int, tool string) {
			s.Send(fmt.Sprintf(`{"type":"tool_request","id":%d,"data":{"name":"%s","parameters":%s}}`, id, tool, pad))
		}
		for i := range 5 {
			s := w.dial(t, "busbar")
			answers := s.answers()
			ask(s, i+1, "hold")
			select {
			case <-w.Svc.Started:
			case m := <-answers:
				t.Fatalf("call %d is answered with %s %+v", i+1, m.Type, m.Error)
			case <-time.After(bustest.Patience):
				t.Fatalf("call %d does not run", i+1)
			}
		}
		last := w.dial(t, "busbar")
		answers := last.answers()
		ask(last, 6, "hold")
		if m := edgetest.Receive(t, "one is refused", answers); m.Error == nil || m.Error.Data.Reason != "overloaded" || m.Error.Data.Executed != "no" {
			t.Errorf("%s %+v", m.Type, m.Error)
		}
		last.Send(`{"type":"tool_request","id":7,"data":{"name":"safe"}}`)
		if m := edgetest.Receive(t, "a call that brings nothing is answered", answers); m.Type != "tool_response" {
			t.Errorf("%+v", m.Error)
		}
		w.release(t)
		bustest.Eventually(t, "there is room again", func() bool {
			ask(last, 8, "echo")
			return edgetest.Receive(t, "an answer", answers).Type == "tool_response"
		})
	})
	t.Run("subscriptions", func(t *testing.T) {
		t.Parallel()
		c := start(t, nil).dial(t, "mcp").Conversation(t)
		c.Greet("2025-06-18")
		for i := range 18 {
			m := c.Ask(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"resources/subscribe","params":{"uri":"note:///by/%d%s"}}`, i+2, i, strings.Repeat("a", 1980)))
			if refused := m.Error != nil && m.Error.Data.Reason == "too_large"; refused != (i > 15) {
				t.Errorf("subscription %d: %+v", i, m.Error)
			}
		}
	})
}

// answers keeps reading, so that pings are answered whatever the test waits for.
func (s socket) answers() <-chan message {
	c, texts := make(chan message, 64), s.Texts()
	go func() {
		for b := range texts {
			var m message
			if err := json.Unmarshal(b, &m); err != nil {
				s.t.Errorf("%s: %v", b, err)
			}
			c <- m
		}
	}()
	return c
}
