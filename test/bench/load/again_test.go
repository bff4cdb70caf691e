package load_test

import (
	"errors"
	"testing"

	"github.com/busbar-mcp/busbar/test/bench/load"
)

// Only a call that was refused because something stood still is repeated; one that is refused each
// time has failed.
func TestPatiently(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		says  string
		times int
		calls int
		fails bool
	}{
		"an answer":                {"", 0, 1, false},
		"a wrong answer":           {`wrong answer: {"text":"5"}`, 1, 1, true},
		"NATS stood still":         {"the audit trail cannot be written", 2, 3, false},
		"an instance stood still":  {`{"reason":"peer_lost"}`, 1, 2, false},
		"it is refused every time": {`{"reason":"unavailable"}`, 1000, 20, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			calls := 0
			err := load.Patiently(func() error {
				if calls++; calls <= c.times {
					return errors.New(c.says)
				}
				return nil
			})
			if calls != c.calls || (err != nil) != c.fails {
				t.Errorf("%d calls, %v", calls, err)
			}
		})
	}
}
