package stdio_test

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/door/stdio"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

func TestLines(t *testing.T) {
	t.Parallel()
	c := start(t, func(cfg *stdio.Config) { cfg.Limits = mcp.Limits{Bytes: 1000} })
	exact := func(size int) string {
		base := edgetest.Call("1", "echo", `{"a":""}`)
		return strings.Replace(base, `"a":""`, `"a":"`+strings.Repeat("x", size-len(base))+`"`, 1)
	}
	for name, l := range map[string]struct {
		line string
		code int
	}{
		"CRLF": {edgetest.Call("1", "echo", "{}") + "\r", 0}, "blanks around": {"  \t" + edgetest.Call("1", "echo", "{}") + "  ", 0},
		"at the limit": {exact(1000), 0}, "at the limit, CRLF": {exact(1000) + "\r", 0}, "one over": {exact(1001), mcp.CodeInvalidRequest},
		"two over": {exact(1002), mcp.CodeInvalidRequest}, "far over": {strings.Repeat("x", 3<<20), mcp.CodeInvalidRequest},
	} {
		t.Run(name, func(t *testing.T) {
			m := c.Ask(l.line)
			if m.Code() != l.code || l.code != 0 && m.Error.Data.Reason != "too_large" {
				t.Errorf("answer %+v, %+v", m, m.Error)
			}
			c.Lives()
		})
	}
	t.Run("empty ones", func(t *testing.T) {
		c.Send("", "  ", "\r", "\t")
		c.Lives() // and nothing came before
	})
	t.Run("many in one write", func(t *testing.T) {
		var lines []string
		for i := range 50 {
			lines = append(lines, edgetest.Call(fmt.Sprint(i), "echo", fmt.Sprintf(`{"n":%d}`, i)))
		}
		c.Send(strings.Join(lines, "\n"))
		for range 50 {
			if m := c.Await(); m.Text() != `{"n":`+string(m.ID)+`}` {
				t.Errorf("answer %+v", m)
			}
		}
	})
	t.Run("byte by byte", func(t *testing.T) {
		for _, b := range []byte(edgetest.Call("1", "echo", "{}") + "\n") {
			_, _ = c.In.Write([]byte{b})
		}
		if m := c.Await(); m.Text() != "{}" {
			t.Errorf("answer %+v", m)
		}
	})
}

func TestLastLineNeedsNoEnd(t *testing.T) {
	t.Parallel()
	for name, last := range map[string]string{"whole": edgetest.Call("9", "echo", "{}"), "half": edgetest.Call("9", "echo", "{}")[:50]} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := start(t, func(cfg *stdio.Config) { cfg.Grace = bustest.Patience })
			_, _ = io.WriteString(c.In, last)
			_ = c.In.Close()
			if m := c.Await(); name == "whole" && m.Text() != "{}" || name == "half" && m.Code() != mcp.CodeParseError {
				t.Errorf("answer %+v", m)
			}
			if err := c.Finished(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A client of no announced version, and clients of both eras, speak on one connection.
func TestBothErasInterleaved(t *testing.T) {
	t.Parallel()
	c := start(t, nil)
	for _, version := range []string{mcp.V20250326, mcp.V20250618, mcp.V20251125} {
		if version != mcp.V20250326 { // the client has not said otherwise
			c.Greet(version)
		}
		if m := c.Ask(edgetest.Call("1", "echo", `{"m":1}`)); m.Text() != `{"m":1}` || m.Field("resultType") != `"complete"` {
			t.Errorf("modern: %s", m.Result)
		}
		m := c.Ask(edgetest.LegacyCall("1", "strict", `{"text":1}`))
		if asResult := m.Field("isError") == "true"; m.Field("resultType") != "" || asResult != (version >= mcp.V20251125) {
			t.Errorf("legacy: %+v", m)
		}
	}
}

// A cancellation that comes right after its request, or for a subscription, must find it.
func TestCancellation(t *testing.T) {
	t.Parallel()
	c := start(t, nil)
	for i := range 50 {
		id := fmt.Sprint(100 + i)
		c.Send(edgetest.Call(id, "hold", "{}") + "\n" + edgetest.Cancel(id))
	}
	c.Lives()
	// The calls that had reached the service were cancelled there.
	bustest.Eventually(t, "no call is held", func() bool { return len(c.svc.Started) == len(c.svc.Ended) })
	if m := c.Ask(edgetest.Listen("7", `{"toolsListChanged":true}`)); m.Method != mcp.NotifyAcknowledged {
		t.Fatalf("%+v", m)
	}
	c.Send(edgetest.Cancel("7"))
	bustest.Eventually(t, "the id is free", func() bool { return c.Ask(edgetest.Request("7", mcp.MethodToolsList, "")).Error == nil })
}

// Beyond a number of requests in flight, more are refused, and there is still room to
// cancel one.
func TestInFlight(t *testing.T) {
	t.Parallel()
	c := start(t, nil)
	const limit = 1024
	for i := range limit {
		if m := c.Ask(edgetest.Listen(fmt.Sprint(i), "{}")); m.Method != mcp.NotifyAcknowledged {
			t.Fatalf("%d: %+v", i, m)
		}
	}
	if m := c.Ask(edgetest.Listen(fmt.Sprint(limit), "{}")); m.Error == nil || m.Error.Data.Reason != "overloaded" {
		t.Errorf("one more: %+v", m)
	}
	c.Send(edgetest.Cancel("3"))
	bustest.Eventually(t, "there is room again", func() bool {
		return c.Ask(edgetest.Request(`"room"`, mcp.MethodToolsList, "")).Error == nil
	})
}
