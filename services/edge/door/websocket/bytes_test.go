package websocket_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

func TestM8BytesOfOneConnection(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	t.Run("requests in flight", func(t *testing.T) {
		t.Parallel()
		s := w.dial(t, "mcp")
		pad := `{"a":"` + strings.Repeat("x", 500<<10) + `","b":"` + strings.Repeat("x", 400<<10) + `"}`
		// The first 18 are less than 16 MiB together, and the next is not.
		for i := range 19 {
			s.send(edgetest.Call(fmt.Sprint(i+1), "hold", pad))
		}
		if m := edgetest.Read(t, []byte(s.next())); m.Error == nil || string(m.ID) != "19" || m.Error.Data.Reason != "overloaded" {
			t.Errorf("%s %+v", m.ID, m.Error)
		}
		for range 18 {
			receive(t, "a call runs", w.svc.Started)
		}
		w.svc.Release <- struct{}{}
		if m := edgetest.Read(t, []byte(s.next())); m.Text() != "released" {
			t.Errorf("%s %+v", m.ID, m.Error)
		}
		s.send(edgetest.Call("20", "echo", pad))
		if m := edgetest.Read(t, []byte(s.next())); m.Text() != pad {
			t.Errorf("there is no room again: %+v", m.Error)
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
