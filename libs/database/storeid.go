package database

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"
)

// StoreID is the id of an owner's data: random, kept beside it, and the same for
// all who have that database open. Of a copy of the database it is the same, too.
func StoreID(ctx context.Context, db Database, owner string) (id string, err error) {
	table := owner + "_store"
	// Two that make the table at once may fail.
	for range 3 {
		err = db.Write(ctx, func(ctx context.Context, tx Tx) error {
			for _, s := range []string{
				"CREATE TABLE IF NOT EXISTS " + table + " (one INTEGER PRIMARY KEY, id TEXT NOT NULL)",
				"INSERT INTO " + table + " (one, id) VALUES (1, $1) ON CONFLICT (one) DO NOTHING",
			} {
				var args []any
				if s[0] == 'I' {
					args = []any{rand.Text()}
				}
				if _, err := tx.Exec(ctx, s, args...); err != nil {
					return err
				}
			}
			found, err := One(ctx, tx, "SELECT id FROM "+table+" WHERE one = 1", nil, &id)
			if err == nil && !found {
				return errors.New("it is gone at once")
			}
			return err
		})
		if err == nil {
			return id, nil
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	return "", fmt.Errorf("id of the data of %s: %w", owner, err)
}
