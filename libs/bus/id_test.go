package bus_test

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/busbar-mcp/busbar/libs/bus"
)

func TestCallIDs(t *testing.T) {
	t.Run("sort by time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			for _, later := range []time.Duration{time.Millisecond, time.Second, time.Hour, 24 * 365 * time.Hour} {
				before := bus.NewCallID()
				time.Sleep(later)
				if after := bus.NewCallID(); after <= before {
					t.Errorf("%s, and %v later %s", before, later, after)
				}
			}
		})
	})
	t.Run("are unlike", func(t *testing.T) {
		var mu sync.Mutex
		seen := map[string]bool{}
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 2000 {
					id := bus.NewCallID()
					mu.Lock()
					// Only the random part: many ids share the same time.
					if chance := id[9:]; len(id) != 26 || seen[chance] || strings.Trim(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") != "" {
						t.Errorf("%s is not new, or no token", id)
					}
					seen[id[9:]] = true
					mu.Unlock()
				}
			})
		}
		wg.Wait()
	})
}
