package table

import (
	"context"
	"strconv"
	"strings"

	"github.com/busbar-mcp/busbar/libs/database"
	"github.com/busbar-mcp/busbar/services/resource/store"
)

// Relay publishes events of the outbox.
func (t *Table) Relay(ctx context.Context, limit int, publish func(context.Context, []store.Event) error) (n int, err error) {
	_, err = t.db.Alone(ctx, func(ctx context.Context) error {
		events, numbers, err := t.events(ctx, limit)
		if err != nil || len(events) == 0 {
			return err
		}
		if err := publish(ctx, events); err != nil {
			return err
		}
		n = len(events)
		places := make([]string, n)
		for i := range places {
			places[i] = "$" + strconv.Itoa(i+1)
		}
		return t.db.Write(ctx, func(ctx context.Context, tx database.Tx) error {
			_, err := tx.Exec(ctx, `DELETE FROM resource_event WHERE seq IN (`+strings.Join(places, ",")+`)`, numbers...)
			return err
		})
	})
	return n, err
}

// events returns the oldest events of the outbox. A transaction takes the number of its event while
// it holds the lock on the resource, so that the events of one resource are in order.
func (t *Table) events(ctx context.Context, limit int) (events []store.Event, numbers []any, err error) {
	err = t.db.Read(ctx, func(ctx context.Context, tx database.Tx) error {
		rows, err := tx.Query(ctx, `SELECT seq, tenant, uri, kind, revision, listed FROM resource_event ORDER BY seq LIMIT `+strconv.Itoa(limit))
		if err != nil {
			return err
		}
		defer rows.Close()
		events, numbers = nil, nil
		for rows.Next() {
			var e store.Event
			var seq int64
			if err := rows.Scan(&seq, &e.Tenant, &e.URI, &e.Kind, &e.Revision, &e.Listed); err != nil {
				return err
			}
			events, numbers = append(events, e), append(numbers, seq)
		}
		return rows.Err()
	})
	return events, numbers, err
}
