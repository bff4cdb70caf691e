package database

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/pressly/goose/v3"
)

// Schema is the version of an owner's tables.
type Schema struct {
	Owner   string
	Version int64
}

// SchemaOf returns the schema that migrations produce on Postgres. It panics if they are not valid
// migrations, because they are part of the program.
func SchemaOf(owner string, migrations fs.FS) Schema {
	s := Schema{Owner: owner}
	files, err := fs.Glob(migrations, engineDir(migrations, "postgres")+"/*.sql")
	if err != nil || len(files) == 0 {
		panic(fmt.Sprintf("no migrations of %s: %v", owner, err))
	}
	for _, name := range files {
		version, err := goose.NumericComponent(path.Base(name))
		if err != nil {
			panic(fmt.Sprintf("migrations of %s: %v", owner, err))
		}
		s.Version = max(s.Version, version)
	}
	return s
}

// engineDir is the directory of the migrations for an engine.
func engineDir(migrations fs.FS, engine string) string {
	if _, err := fs.Stat(migrations, engine); err != nil {
		return "both"
	}
	return engine
}

// Look returns the version of each owner's tables in a Postgres database, 0 for none. It makes one
// connection, and changes nothing. The error says if the disk is full.
func Look(ctx context.Context, url string, owners ...string) ([]Schema, error) {
	cfg, err := pgxpool.ParseConfig(url) // it knows more parameters than pgx itself
	if err != nil || !IsPostgres(url) {
		return nil, errors.New("the database URL is not one of Postgres: use postgres://user:password@host:5432/name") // its text may hold the password
	}
	conn, err := pgx.ConnectConfig(ctx, cfg.ConnConfig)
	if err != nil {
		return nil, fmt.Errorf("database %s does not answer: %w", Redacted(url), brief{err})
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(ctx)
	}()
	all := make([]Schema, len(owners))
	for i, owner := range owners {
		all[i].Owner = owner
		table := pgx.Identifier{owner + "_schema"}.Sanitize()
		var there bool
		if err := conn.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", table).Scan(&there); err != nil {
			return nil, fmt.Errorf("schema version of %s: %w", owner, err)
		}
		if !there {
			continue
		}
		if err := conn.QueryRow(ctx, "SELECT coalesce(max(version_id), 0) FROM "+table+" WHERE is_applied").Scan(&all[i].Version); err != nil {
			return nil, fmt.Errorf("schema version of %s: %w", owner, err)
		}
	}
	if err := room(ctx, conn); full(err) {
		return nil, fmt.Errorf("the disk of database %s is full: %w", Redacted(url), err)
	}
	return all, nil
}

// room checks for free space by writing a MiB without committing it.
func room(ctx context.Context, conn *pgx.Conn) error {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	_, err = tx.Exec(ctx, "CREATE TEMPORARY TABLE busbar_room ON COMMIT DROP AS SELECT repeat(n::text, 100) FROM generate_series(1, 3000) AS n")
	return err
}
