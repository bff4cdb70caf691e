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
		c.Send(edgetest.Call("1", "hold", "{}"))
		c.svc.Running(t)
		_ = c.In.Close()
		c.svc.Release <- struct{}{}
		if m := c.Await(); m.Text() != "released" {
			t.Errorf("answer %+v", m)
		}
		if err := c.Finished(); err != nil {
			t.Error(err)
		}
	})
	t.Run("cancels it after the grace", func(t *testing.T) {
		t.Parallel()
		cancels := func() error {
			c := start(t, func(cfg *stdio.Config) { cfg.Grace = 50 * time.Millisecond })
			c.Send(edgetest.Call("1", "hold", "{}"))
			c.svc.Running(t)
			at := time.Now()
			_ = c.In.Close()
			m, told := edgetest.Next(t, "the end", c.Out)
			if told && edgetest.Read(t, m).Code() != mcp.CodeCancelled {
				t.Errorf("answer %s", m)
			}
			c.svc.Over(t)
			err := c.Finished()
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
		c.Lives()
		c.Stop()
		if err := c.Finished(); err != nil {
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
		_ = c.Stdout.CloseWithError(edgetest.ErrBroken)
		c.Send(edgetest.Call("1", "safe", "{}"))
		if err := c.Finished(); !errors.Is(err, edgetest.ErrBroken) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("closed while a call is in flight", func(t *testing.T) {
		t.Parallel()
		c := launch(t, nil)
		c.Send(edgetest.Call("1", "hold", "{}"), edgetest.Call("2", "safe", "{}"))
		c.svc.Running(t)
		_ = c.Stdout.CloseWithError(edgetest.ErrBroken)
		if err := c.Finished(); !errors.Is(err, edgetest.ErrBroken) {
			t.Errorf("got %v", err)
		}
		c.svc.Over(t)
	})
	for name, end := range map[string]func(client){"input ends": func(c client) { _ = c.In.Close() }, "context ends": func(c client) { c.Stop() }} {
		t.Run("not read when the "+name, func(t *testing.T) {
			t.Parallel()
			c := launch(t, func(cfg *stdio.Config) { cfg.Grace = 50 * time.Millisecond })
			for i := range 10 {
				c.Send(edgetest.Call(fmt.Sprint(i), "safe", "{}"))
			}
			at := time.Now()
			end(c)
			if err := c.Finished(); err == nil || time.Since(at) > bustest.Promptly {
				t.Errorf("%v after %v", err, time.Since(at))
			}
			_ = c.Stdout.Close()
		})
	}
}
