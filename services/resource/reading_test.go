package resource

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/resource/store"
)

// Calls with large contents share a limit: the next one waits until one of them has ended, and is
// refused if none does.
func TestReadingHasABound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReading()
		ends := []context.CancelFunc{}
		for range readingBytes / store.MaxContent {
			ctx, end := context.WithCancel(t.Context())
			ends = append(ends, end)
			if err := r.admit(ctx)(store.MaxContent); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.admit(t.Context())(store.SmallRead + 1); !fault.Is(err, fault.Overloaded) {
			t.Errorf("beyond the bound: %v", err)
		}
		next := make(chan error, 1)
		ctx, end := context.WithCancel(t.Context())
		defer end()
		go func() { next <- r.admit(ctx)(store.MaxContent) }()
		synctest.Wait()
		ends[0]()
		if err := <-next; err != nil {
			t.Errorf("after the end of another: %v", err)
		}
		gone, leave := context.WithCancel(t.Context())
		leave()
		if err := r.admit(gone)(store.MaxContent); !errors.Is(err, context.Canceled) {
			t.Errorf("a call that is over: %v", err)
		}
	})
}
