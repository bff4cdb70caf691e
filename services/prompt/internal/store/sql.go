package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/busbar-mcp/busbar/libs/database"
	"github.com/busbar-mcp/busbar/libs/fault"
)

//go:embed migrations
var files embed.FS

// onSQL is the Store.
type onSQL struct {
	db     database.Database
	keys   *database.Keys
	limits Limits
}

// migrations returns the directories for database.Config.
func migrations() fs.FS {
	sub, err := fs.Sub(files, "migrations")
	if err != nil {
		panic(err) // only if the name above is wrong
	}
	return sub
}

// Schema returns the owner of the tables and their version in this release.
func Schema() database.Schema { return database.SchemaOf("prompt", migrations()) }

// Open opens the store in a database and updates its tables. It waits for the database
// until ctx ends. cfg needs only the place.
func Open(ctx context.Context, cfg database.Config, limits Limits) (Store, error) {
	cfg.Owner, cfg.Holds, cfg.Migrations = "prompt", "prompts", migrations()
	db, err := database.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	keys, err := database.OpenKeys(ctx, db, cfg.Owner, database.DefaultKeyLimits)
	if err != nil {
		db.Close()
		return nil, err
	}
	return &onSQL{db, keys, limits}, nil
}

// StoreID implements Store.
func (s *onSQL) StoreID(ctx context.Context) (string, error) {
	return database.StoreID(ctx, s.db, "prompt")
}

// Away implements Store.
func (s *onSQL) Away() error { return s.db.Away() }

func (s *onSQL) Figures() []prometheus.Collector { return s.db.Figures() }

// Close implements Store.
func (s *onSQL) Close() { s.db.Close() }

func unknown(name string) error {
	return fault.New(fault.UnknownPrompt, "Unknown prompt: %s", fault.Clip(name))
}

// one reads a row outside of a transaction.
func (s *onSQL) one(ctx context.Context, statement string, args []any, dest ...any) (found bool, err error) {
	err = s.db.Read(ctx, func(ctx context.Context, tx database.Tx) error {
		found, err = database.One(ctx, tx, statement, args, dest...)
		return err
	})
	return found, err
}

// Revision implements Store.
func (s *onSQL) Revision(ctx context.Context) (n int64, err error) {
	_, err = s.one(ctx, "SELECT revision FROM prompt_catalogue WHERE id = 1", nil, &n)
	return n, err
}

// All implements Store. A single statement gives a consistent view.
func (s *onSQL) All(ctx context.Context) (all []Version, revision int64, err error) {
	err = s.db.Read(ctx, func(ctx context.Context, tx database.Tx) error {
		all, err = database.All(ctx, tx, func(scan func(...any) error) (Version, error) {
			var name, definition, author sql.NullString
			var number, made sql.NullInt64
			err := scan(&revision, &name, &number, &definition, &author, &made)
			return Version{Name: name.String, Number: number.Int64, Definition: []byte(definition.String), Author: author.String, Made: at(made.Int64)}, err
		}, `SELECT c.revision, v.name, v.version, v.definition, v.author, v.made
			FROM prompt_catalogue c LEFT JOIN prompt p ON p.tenant = '' AND p.deleted = 0
			LEFT JOIN prompt_version v ON v.tenant = p.tenant AND v.name = p.name AND v.version = p.version
			WHERE c.id = 1 ORDER BY v.name`)
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	if len(all) == 1 && all[0].Name == "" {
		return nil, revision, nil // there are no prompts, only a revision
	}
	return all, revision, nil
}

func at(milliseconds int64) time.Time { return time.UnixMilli(milliseconds).UTC() }

// List implements Store.
func (s *onSQL) List(ctx context.Context, tenant, after string, limit int) (all []Listed, err error) {
	err = s.db.Read(ctx, func(ctx context.Context, tx database.Tx) error {
		all, err = database.All(ctx, tx, func(scan func(...any) error) (l Listed, err error) {
			var entry string
			err = scan(&l.Name, &l.Version, &entry)
			l.Entry = []byte(entry)
			return l, err
		}, "SELECT name, version, coalesce(listed, '') FROM prompt WHERE tenant = $1 AND deleted = 0 AND name > $2 ORDER BY name LIMIT $3", tenant, after, limit)
		return err
	})
	return all, err
}

// Covered implements Store.
func (s *onSQL) Covered(ctx context.Context, tenant string) (names []string, err error) {
	err = s.db.Read(ctx, func(ctx context.Context, tx database.Tx) error {
		names, err = database.All(ctx, tx, func(scan func(...any) error) (name string, err error) {
			err = scan(&name)
			return name, err
		}, `SELECT p.name FROM prompt p JOIN prompt e ON e.tenant = '' AND e.name = p.name AND e.deleted = 0
			WHERE p.tenant = $1 AND p.deleted = 0`, tenant)
		return err
	})
	return names, err
}

// Get implements Store.
func (s *onSQL) Get(ctx context.Context, tenant, name string, number int64) (Version, error) {
	v := Version{Tenant: tenant, Name: name}
	var definition sql.NullString
	var made int64
	found, err := s.one(ctx, `SELECT v.version, v.definition, v.author, v.made
		FROM prompt p JOIN prompt_version v ON v.tenant = p.tenant AND v.name = p.name
		WHERE p.tenant = $1 AND p.name = $2 AND v.version = CASE WHEN CAST($3 AS bigint) = 0 THEN p.version ELSE CAST($3 AS bigint) END`,
		[]any{tenant, name, number}, &v.Number, &definition, &v.Author, &made)
	switch {
	case err != nil:
		return Version{}, err
	case !found, !definition.Valid:
		return Version{}, unknown(name)
	}
	v.Definition, v.Made = []byte(definition.String), at(made)
	return v, nil
}

// Versions implements Store.
func (s *onSQL) Versions(ctx context.Context, tenant, name string) (all []Version, err error) {
	err = s.db.Read(ctx, func(ctx context.Context, tx database.Tx) error {
		all, err = database.All(ctx, tx, func(scan func(...any) error) (Version, error) {
			v := Version{Tenant: tenant, Name: name}
			var made, deleted int64
			err := scan(&v.Number, &v.Author, &made, &deleted)
			v.Made, v.Deleted = at(made), deleted != 0
			return v, err
		}, "SELECT version, author, made, CASE WHEN definition IS NULL THEN 1 ELSE 0 END FROM prompt_version WHERE tenant = $1 AND name = $2 ORDER BY version DESC", tenant, name)
		return err
	})
	if err == nil && len(all) == 0 {
		err = unknown(name)
	}
	if err != nil {
		return nil, err
	}
	return all, nil
}

// errNothing ends a transaction that has nothing to do.
var errNothing = errors.New("nothing to do")

// alone locks out other writing transactions, and counts a change of the shared
// prompts.
func alone(ctx context.Context, tx database.Tx, tenant string) error {
	changes := 0
	if tenant == "" {
		changes = 1
	}
	_, err := tx.Exec(ctx, "UPDATE prompt_catalogue SET revision = revision + $1 WHERE id = 1", changes)
	return err
}

func notFits(format string, args ...any) error {
	return fault.New(fault.TooLarge, "the catalogue of prompts is full: %s; delete some, or shorten their descriptions", fmt.Sprintf(format, args...))
}
