package resource

import (
	"context"
	"time"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/resource/store"
)

const (
	// relayBatch is how many events are published at a time.
	relayBatch = 256
	// relayEvery is how often an instance looks for events that other instances did not publish.
	// After its own write it looks again soon, because another instance may have been relaying at
	// that moment.
	relayEvery = time.Second
	relaySoon  = 50 * time.Millisecond
)

// written makes the relay look for events at once.
func (r *resources) written() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// relay publishes the events of the outbox; it is for service.Service.Go.
func (r *resources) relay(ctx context.Context, _ *bus.Conn) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	failing := false
	for {
		wait := bus.Jitter(relayEvery)
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-r.wake:
			wait = relaySoon
		}
		err := r.publish(ctx)
		switch {
		case err != nil && !failing && ctx.Err() == nil:
			r.Logger().Warn("events of resources wait to be published", "error", err)
		case err == nil && failing:
			r.Logger().Info("events of resources are published again")
		}
		if failing = err != nil; failing {
			wait = relayEvery
		}
		timer.Reset(wait)
	}
}

// publish publishes all events of the outbox.
func (r *resources) publish(ctx context.Context) error {
	for {
		n, err := r.store.Relay(ctx, relayBatch, func(ctx context.Context, events []store.Event) error {
			updates := make([]service.ResourceUpdate, len(events))
			for i, e := range events {
				updates[i] = service.ResourceUpdate{URI: e.URI, Tenant: e.Tenant, Listed: e.Listed}
			}
			ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			return r.ResourcesUpdated(ctx, updates...) // fault:change-untold
		})
		if err != nil || n < relayBatch {
			return err
		}
	}
}
