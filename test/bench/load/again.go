package load

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/busbar-mcp/busbar/libs/bustest"
)

const (
	// tries is how often a call is made, and wait how long before it is made again.
	tries = 20
	wait  = 100 * time.Millisecond
)

var answered, again atomic.Int64

// Again is how many calls were made again so far, and how many of all ended otherwise.
func Again() (more, of int64) { return again.Load(), answered.Load() }

// stoodStill reports whether an error is a refusal because a process was silent for a second:
// NATS, or the instance that was to answer.
func stoodStill(err error) bool {
	if err == nil {
		return false
	}
	text := err.Error()
	return bustest.StoodStill(text) || strings.Contains(text, `"peer_lost"`) || strings.Contains(text, `"unavailable"`) || strings.Contains(text, "code = Unavailable")
}

// Patiently repeats a call that was refused because something stood still, since that says nothing
// about the measured program. A call that is refused each time, or for another reason, has failed.
func Patiently(call func() error) error {
	for n := 1; ; n++ {
		err := call()
		if !stoodStill(err) || n == tries {
			answered.Add(1)
			return err
		}
		again.Add(1)
		time.Sleep(wait)
	}
}
