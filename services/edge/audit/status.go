package audit

import (
	"errors"
	"fmt"

	"github.com/busbar-mcp/busbar/libs/bus/auditlog"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// Stats are counts of a trail.
type Stats struct {
	// Queued is the number of events that wait in memory, Spooled the bytes of those on
	// disk.
	Queued  int
	Spooled int64
	// Dropped is the number of lost events: of calls without effects, and of answers that
	// were withheld.
	Dropped uint64
	// Stream is the state of the events that wait on the bus for the audit service.
	Stream auditlog.State
}

// Stats returns the current counts.
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

// Status describes the state of the trail for people. The error says why calls with
// effects are refused, and what to do.
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

// cause is why the trail refused something, without the text for clients, which adds
// nothing.
func cause(err error) error {
	var f *fault.Error
	if errors.As(err, &f) && f.Unwrap() != nil {
		return f.Unwrap()
	}
	return err
}
