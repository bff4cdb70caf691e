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

// writer moves events from the bus to the store. An event leaves the bus when
// it is committed, or when ten tries say that it never will be. At a row behind the end
// of a chain it stops: events stay on the bus until that row is gone.
type writer struct {
	store   trail.Store
	log     *slog.Logger
	ackWait time.Duration
	stopped atomic.Pointer[trail.Stray]
}

// away says why nothing is written although the database answers; nil if it is.
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

// write tries until the batch is written, or ctx ends. A store that is away is
// no fault of the events: they stay on the bus, and count as being worked on.
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
			// The halves find the one that is at fault in few steps.
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

// append writes a batch. However long a slow disk takes, the bus hears that it is
// being worked on, so that no other instance begins with the same.
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
	// Not ctx: what has begun is finished, within the time that the store gives it.
	_, err := w.store.Append(context.WithoutCancel(ctx), events)
	close(written)
	<-ended
	return err
}

// beat is how often the bus hears of a batch.
func (w *writer) beat() time.Duration {
	if w.ackWait <= 0 {
		return 10 * time.Second
	}
	return w.ackWait / 3
}
