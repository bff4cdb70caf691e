package audit

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/auditlog"
	"github.com/busbar-mcp/busbar/services/audit/trail"
)

// writer moves events from the bus to the store. An event leaves the bus when it is
// committed, or is put aside after ten tries that show it never will be. At a row behind
// the end of a chain the writer stops: events stay on the bus until that row is gone.
type writer struct {
	store   trail.Store
	log     *slog.Logger
	ackWait time.Duration
	stopped atomic.Pointer[trail.Stray]
}

// away says why nothing is written although the database answers; nil if events are
// written.
func (w *writer) away() error {
	if stray := w.stopped.Load(); stray != nil {
		return stray
	}
	return nil
}

// note remembers whether a chain cannot go on, and logs a change.
func (w *writer) note(err error) {
	var stray *trail.Stray
	errors.As(err, &stray)
	switch before := w.stopped.Swap(stray); {
	case stray != nil && before == nil:
		w.log.Error("the audit trail has stopped: its database has a row that this service did not write there; events wait on the bus", "row", stray)
	case stray == nil && before != nil:
		w.log.Info("the audit trail goes on")
	}
}

// run is for service.Service.Go.
func (w *writer) run(ctx context.Context, conn *bus.Conn) error {
	for reader := auditlog.NewReader(conn, w.ackWait); ; {
		batch, err := reader.Next(ctx)
		if err != nil {
			return err
		}
		w.write(ctx, batch)
	}
}

// write retries until the batch is written, or ctx ends. If the store is away, the events
// are not at fault: they stay on the bus, and count as in progress.
func (w *writer) write(ctx context.Context, batch []*auditlog.Delivery) {
	events := make([]trail.Event, len(batch))
	for i, d := range batch {
		events[i] = trail.FromWire(d.Event)
	}
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 2*time.Second, w.beat()) {
		err := w.append(ctx, batch, events)
		w.note(err)
		switch {
		case err == nil:
			for _, d := range batch {
				d.Ack()
			}
			return
		case errors.Is(err, trail.ErrRejected) && len(batch) == 1:
			batch[0].Reject(ctx, err)
			return
		case errors.Is(err, trail.ErrRejected):
			// Halving finds the event at fault in few steps.
			w.write(ctx, batch[:len(batch)/2])
			w.write(ctx, batch[len(batch)/2:])
			return
		}
		if pause == 100*time.Millisecond {
			w.log.Error("the audit database cannot be written; events wait on the bus", "events", len(batch), "error", err)
		}
		for _, d := range batch {
			d.Working()
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			for _, d := range batch {
				d.Release()
			}
			return
		}
	}
}

// append writes a batch. While a slow disk takes its time, it tells the bus that the
// batch is in progress, so that no other instance begins with it.
func (w *writer) append(ctx context.Context, batch []*auditlog.Delivery, events []trail.Event) error {
	written, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(w.beat())
		defer tick.Stop()
		for {
			select {
			case <-written:
				return
			case <-tick.C:
				for _, d := range batch {
					d.Working()
				}
			}
		}
	}()
	// Not ctx: a write that has begun is finished, within the store's own time limit.
	_, err := w.store.Append(context.WithoutCancel(ctx), events)
	close(written)
	<-ended
	return err
}

// beat is how often the bus is told that a batch is in progress.
func (w *writer) beat() time.Duration {
	if w.ackWait <= 0 {
		return 10 * time.Second
	}
	return w.ackWait / 3
}
