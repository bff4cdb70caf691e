package database

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"
)

// StoreID returns the id of an owner's data. It is random, stored with the data, and the same for
// all processes that have the database open. A copy of the database has the same id.
func StoreID(ctx context.Context, db Database, owner string) (id string, err error) {
	table := owner + "_store"
	err = ensure(ctx, db, []string{"CREATE TABLE IF NOT EXISTS " + table + " (one INTEGER PRIMARY KEY, id TEXT NOT NULL)"}, func(ctx context.Context, tx Tx) error {
		if _, err := tx.Exec(ctx, "INSERT INTO "+table+" (one, id) VALUES (1, $1) ON CONFLICT (one) DO NOTHING", rand.Text()); err != nil {
			return err
		}
		found, err := One(ctx, tx, "SELECT id FROM "+table+" WHERE one = 1", nil, &id)
		if err == nil && !found {
			return errors.New("it is gone at once")
		}
		return err
	})
	if err != nil {
		return "", fmt.Errorf("id of the data of %s: %w", owner, err)
	}
	return id, nil
}

// ensure makes tables by statements with IF NOT EXISTS, and then does more with them in the
// same transaction; more may be nil. Two processes that make a table at once may fail, so it
// tries three times.
func ensure(ctx context.Context, db Database, statements []string, more func(context.Context, Tx) error) (err error) {
	for range 3 {
		err = db.Write(ctx, func(ctx context.Context, tx Tx) error {
			for _, s := range statements {
				if _, err := tx.Exec(ctx, s); err != nil {
					return err
				}
			}
			if more == nil {
				return nil
			}
			return more(ctx, tx)
		})
		if err == nil {
			return nil
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return err
}
