package audit

import (
	"errors"
	"fmt"

	"github.com/busbar-mcp/busbar/libs/bus/auditlog"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// Stats are counts of a trail.
type Stats struct {
	// Queued events wait in memory, Spooled bytes on disk.
	Queued  int
	Spooled int64
	// Dropped events are lost: of calls without effects, and of answers that
	// were withheld.
	Dropped uint64
	// Stream is what waits on the bus for the audit service.
	Stream auditlog.State
}

// Stats returns the counts of now.
func (t *Trail) Stats() Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := Stats{Queued: t.queued(), Dropped: t.dropped, Stream: t.log.State()}
	for _, q := range t.waiting {
		s.Dropped += q.lost
	}
	if t.spool != nil {
		s.Spooled = t.spool.waiting() + t.ends.waiting()
	}
	return s
}

// Status says for people how the trail is. The error says why calls with effects
// are refused, and what to do.
func (t *Trail) Status() (string, error) {
	if err := t.unready(); err != nil {
		return "", fmt.Errorf("calls with effects are refused: %w", err)
	}
	s := t.Stats()
	if why := t.stalled(); why != nil {
		t.mu.Lock()
		unsaved := t.unsaved
		t.mu.Unlock()
		if t.ends != nil && unsaved != nil {
			return "", fmt.Errorf("calls with effects are refused: %w, and the spool: %w", why, unsaved)
		}
		return fmt.Sprintf("NATS takes no events, so calls with effects are recorded in the spool, %d KiB by now: %v", (s.Spooled+1023)>>10, why), nil
	}
	line := fmt.Sprintf("%d KiB of %d MiB wait to be written down", (s.Stream.Bytes+1023)>>10, s.Stream.Limit>>20)
	if t.ends != nil {
		if err := t.ends.fit(); err != nil {
			line += fmt.Sprintf("; should NATS take no events, calls with effects are refused: %v", err)
		}
	}
	return line, nil
}

// cause is why the trail refused something; what a client is told of that adds nothing.
func cause(err error) error {
	var f *fault.Error
	if errors.As(err, &f) && f.Unwrap() != nil {
		return f.Unwrap()
	}
	return err
}
