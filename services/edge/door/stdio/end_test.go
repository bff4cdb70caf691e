package stdio_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/door/stdio"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

func TestEndOfInput(t *testing.T) {
	t.Parallel()
	t.Run("finishes what is in flight", func(t *testing.T) {
		t.Parallel()
		c := start(t, func(cfg *stdio.Config) { cfg.Grace = bustest.Patience })
		c.send(edgetest.Call("1", "hold", "{}"))
		receive(t, "the call starts", c.svc.Started)
		_ = c.in.Close()
		c.svc.Release <- struct{}{}
		if m := c.await(); m.Text() != "released" {
			t.Errorf("answer %+v", m)
		}
		if err := c.finished(); err != nil {
			t.Error(err)
		}
	})
	t.Run("cancels it after the grace", func(t *testing.T) {
		t.Parallel()
		cancels := func() error {
			c := start(t, func(cfg *stdio.Config) { cfg.Grace = 50 * time.Millisecond })
			c.send(edgetest.Call("1", "hold", "{}"))
			receive(t, "the call starts", c.svc.Started)
			at := time.Now()
			_ = c.in.Close()
			m, told := receive(t, "the end", c.out)
			if told && m.Code() != mcp.CodeCancelled {
				t.Errorf("answer %+v", m)
			}
			receive(t, "the handler's context ends", c.svc.Ended)
			err := c.finished()
			if took := time.Since(at); took > bustest.Promptly {
				t.Errorf("after %v", took)
			}
			if !told && err == nil {
				t.Error("the client is told nothing")
			}
			return err
		}
		// A client has a quarter of a second for its last answers, which is little on a
		// busy machine.
		var err error
		for range 8 {
			if err = cancels(); err == nil {
				return
			}
		}
		t.Error(err)
	})
	t.Run("of the context", func(t *testing.T) {
		t.Parallel()
		c := start(t, func(cfg *stdio.Config) { cfg.Grace = 50 * time.Millisecond })
		c.lives()
		c.stop()
		if err := c.finished(); err != nil {
			t.Error(err)
		}
	})
}

// A client that closes its end, or stops reading, must not keep the server running.
func TestOutput(t *testing.T) {
	t.Parallel()
	t.Run("closed", func(t *testing.T) {
		t.Parallel()
		c := launch(t, nil)
		_ = c.stdout.CloseWithError(errBroken)
		c.send(edgetest.Call("1", "safe", "{}"))
		if err := c.finished(); !errors.Is(err, errBroken) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("closed while a call is in flight", func(t *testing.T) {
		t.Parallel()
		c := launch(t, nil)
		c.send(edgetest.Call("1", "hold", "{}"), edgetest.Call("2", "safe", "{}"))
		receive(t, "the call starts", c.svc.Started)
		_ = c.stdout.CloseWithError(errBroken)
		if err := c.finished(); !errors.Is(err, errBroken) {
			t.Errorf("got %v", err)
		}
		receive(t, "the handler's context ends", c.svc.Ended)
	})
	for name, end := range map[string]func(*client){"input ends": func(c *client) { _ = c.in.Close() }, "context ends": func(c *client) { c.stop() }} {
		t.Run("not read when the "+name, func(t *testing.T) {
			t.Parallel()
			c := launch(t, func(cfg *stdio.Config) { cfg.Grace = 50 * time.Millisecond })
			for i := range 10 {
				c.send(edgetest.Call(fmt.Sprint(i), "safe", "{}"))
			}
			at := time.Now()
			end(c)
			if err := c.finished(); err == nil || time.Since(at) > bustest.Promptly {
				t.Errorf("%v after %v", err, time.Since(at))
			}
			_ = c.stdout.Close()
		})
	}
}
