package edge

import (
	"context"
	"time"

	"github.com/busbar-mcp/busbar/libs/bus"
)

// Times of the search for running tasks that have lost their permission.
const (
	// endAgain is when to search once more: until then, a call that was let through
	// before a change may still become a task.
	endAgain = bus.DefaultTimeout
	// endRetry is the pause after a failure.
	endRetry = 2 * time.Second
	// endTime bounds one search.
	endTime = time.Minute
)

// endTasks ends running tasks that have lost their permission: when the edge starts, and
// when its policy changes or a credential ends.
func (e *Edge) endTasks() {
	changed := make(chan struct{}, 1)
	poke := func() {
		select {
		case changed <- struct{}{}:
		default: // a search is due anyhow
		}
	}
	revoked := func(context.Context, string) (bool, error) { return false, nil }
	switch p, a := e.policy(), e.identity(); {
	case e.cfg.Guest || p == nil && a == nil:
		return // a guest's policy counts for nobody else
	default:
		if p != nil {
			e.cleanup(p.OnChange(poke))
		}
		if a != nil {
			revoked = a.Revoked
			e.cleanup(a.OnEnded(func(string) { poke() }))
		}
	}
	ctx, end := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		timer := time.NewTimer(0)
		defer timer.Stop()
		for again := true; ; {
			select {
			case <-ctx.Done():
				return
			case <-changed:
				again = true
			case <-timer.C:
			}
			timer.Stop()
			looking, cancel := context.WithTimeout(ctx, endTime)
			err := e.gateway.EndTasks(looking, revoked)
			cancel()
			switch {
			case err != nil && ctx.Err() == nil:
				e.cfg.Logger.Warn("tasks that may not go on cannot be ended now; this is tried again", "error", err)
				timer.Reset(endRetry)
			case again:
				again = false
				timer.Reset(endAgain)
			}
		}
	}()
	e.cleanup(func() { end(); <-done })
}
