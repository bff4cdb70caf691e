package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5/stdlib"

	"github.com/busbar-mcp/busbar/libs/database"
	"github.com/busbar-mcp/busbar/libs/fault"
)

//go:embed migrations/*.sql
var files embed.FS

// onSQL is the store of both engines: their SQL does not differ in what it
// uses.
type onSQL struct {
	db    *sql.DB
	close func() error
}

// Postgres opens the store in a Postgres database, and brings its tables up to
// date.
func Postgres(ctx context.Context, url string) (Store, error) {
	pool, err := database.OpenPostgres(ctx, url, "prompt")
	if err != nil {
		return nil, err
	}
	if err := database.MigratePostgres(ctx, pool, "prompt", migrations()); err != nil {
		pool.Close()
		return nil, err
	}
	db := stdlib.OpenDBFromPool(pool)
	return &onSQL{db, func() error {
		err := db.Close()
		pool.Close()
		return err
	}}, nil
}

// SQLite opens the store in a file, and brings its tables up to date.
func SQLite(ctx context.Context, file string) (Store, error) {
	db, err := database.OpenSQLite(ctx, file)
	if err != nil {
		return nil, err
	}
	if err := database.MigrateSQLite(ctx, db, "prompt", migrations()); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &onSQL{db, db.Close}, nil
}

func migrations() fs.FS {
	sub, err := fs.Sub(files, "migrations")
	if err != nil {
		panic(err) // the name is a constant
	}
	return sub
}

// Close implements Store.
func (s *onSQL) Close() error { return s.close() }

// unavailable says that the database did not do what it was asked for.
func unavailable(ctx context.Context, err error) error {
	var own *fault.Error
	switch {
	case errors.As(err, &own):
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return fault.New(fault.Unavailable, "the database of prompts does not answer; try again shortly").Because(err)
}

func unknown(name string) error {
	return fault.New(fault.UnknownPrompt, "Unknown prompt: %s", fault.Clip(name))
}

// Revision implements Store.
func (s *onSQL) Revision(ctx context.Context) (n int64, err error) {
	if err := s.db.QueryRowContext(ctx, "SELECT revision FROM prompt_catalogue WHERE id = 1").Scan(&n); err != nil {
		return 0, unavailable(ctx, err)
	}
	return n, nil
}

// All implements Store. One statement sees one moment.
func (s *onSQL) All(ctx context.Context) ([]Version, int64, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT c.revision, v.name, v.version, v.definition, v.author, v.made
		FROM prompt_catalogue c LEFT JOIN prompt p ON p.deleted = 0 LEFT JOIN prompt_version v ON v.name = p.name AND v.version = p.version
		WHERE c.id = 1 ORDER BY v.name`)
	if err != nil {
		return nil, 0, unavailable(ctx, err)
	}
	defer func() { _ = rows.Close() }()
	var all []Version
	var revision int64
	for rows.Next() {
		var name, definition, author sql.NullString
		var number, made sql.NullInt64
		if err := rows.Scan(&revision, &name, &number, &definition, &author, &made); err != nil {
			return nil, 0, unavailable(ctx, err)
		}
		if name.Valid {
			all = append(all, Version{Name: name.String, Number: number.Int64, Definition: []byte(definition.String), Author: author.String, Made: at(made.Int64)})
		}
	}
	if err := rows.Err(); err != nil {
		return nil, 0, unavailable(ctx, err)
	}
	return all, revision, nil
}

func at(milliseconds int64) time.Time { return time.UnixMilli(milliseconds).UTC() }

// Get implements Store.
func (s *onSQL) Get(ctx context.Context, name string, number int64) (Version, error) {
	v := Version{Name: name}
	var definition sql.NullString
	var made int64
	err := s.db.QueryRowContext(ctx, `SELECT v.version, v.definition, v.author, v.made
		FROM prompt p JOIN prompt_version v ON v.name = p.name
		WHERE p.name = $1 AND v.version = CASE WHEN CAST($2 AS bigint) = 0 THEN p.version ELSE CAST($2 AS bigint) END`, name, number).
		Scan(&v.Number, &definition, &v.Author, &made)
	switch {
	case errors.Is(err, sql.ErrNoRows), err == nil && !definition.Valid:
		return Version{}, unknown(name)
	case err != nil:
		return Version{}, unavailable(ctx, err)
	}
	v.Definition, v.Made = []byte(definition.String), at(made)
	return v, nil
}

// Versions implements Store.
func (s *onSQL) Versions(ctx context.Context, name string) ([]Version, error) {
	rows, err := s.db.QueryContext(ctx, "SELECT version, author, made, CASE WHEN definition IS NULL THEN 1 ELSE 0 END FROM prompt_version WHERE name = $1 ORDER BY version DESC", name)
	if err != nil {
		return nil, unavailable(ctx, err)
	}
	defer func() { _ = rows.Close() }()
	var all []Version
	for rows.Next() {
		v := Version{Name: name}
		var made, deleted int64
		if err := rows.Scan(&v.Number, &v.Author, &made, &deleted); err != nil {
			return nil, unavailable(ctx, err)
		}
		v.Made, v.Deleted = at(made), deleted != 0
		all = append(all, v)
	}
	if err := rows.Err(); err != nil {
		return nil, unavailable(ctx, err)
	}
	if len(all) == 0 {
		return nil, unknown(name)
	}
	return all, nil
}

// errNothing ends a transaction that turned out to have nothing to do.
var errNothing = errors.New("nothing to do")

// write runs f alone among all writers, and keeps what it did if it returns no
// error.
func (s *onSQL) write(ctx context.Context, f func(tx *sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return unavailable(ctx, err)
	}
	_, err = tx.ExecContext(ctx, "UPDATE prompt_catalogue SET revision = revision + 1 WHERE id = 1")
	if err == nil {
		err = f(tx)
	}
	if err != nil {
		_ = tx.Rollback()
		if errors.Is(err, errNothing) {
			return nil
		}
		return unavailable(ctx, err)
	}
	if err := tx.Commit(); err != nil {
		return fault.New(fault.Unavailable, "the database of prompts does not answer; whether the change was made is not known").Because(err).Ran(fault.Unknown)
	}
	return nil
}

func notFits(format string, args ...any) error {
	return fault.New(fault.TooLarge, "the catalogue of prompts is full: %s. Delete some, or shorten their descriptions", fmt.Sprintf(format, args...))
}
