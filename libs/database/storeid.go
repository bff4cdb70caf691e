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
