// Package database opens the databases that services own: Postgres for a
// fleet, SQLite where nothing is configured. It brings their schemas up to
// date. What is in them is for the services to say: each has a store interface
// of its own, one implementation for either engine, and one suite of tests that
// runs on both.
package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	_ "modernc.org/sqlite" // registers the driver
)

// IsPostgres reports whether a database URL is one of Postgres.
func IsPostgres(rawURL string) bool {
	return strings.HasPrefix(rawURL, "postgres://") || strings.HasPrefix(rawURL, "postgresql://")
}

// statementTime bounds one statement, so that a lock held elsewhere ends as an
// error and not as a hung call.
const statementTime = 10 * time.Second

// OpenPostgres opens a pool, waiting for the server until ctx ends. name is
// shown to whoever looks at the server's connections. Parameters in the URL,
// such as pool_max_conns, are obeyed (pgxpool.ParseConfig).
func OpenPostgres(ctx context.Context, rawURL, name string) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(rawURL)
	if err != nil {
		// Its text may hold the password.
		return nil, errors.New("the database URL is not one: use postgres://user:password@host:5432/name")
	}
	set := func(key, value string) {
		if _, own := cfg.ConnConfig.RuntimeParams[key]; !own {
			cfg.ConnConfig.RuntimeParams[key] = value
		}
	}
	set("application_name", "busbar "+name)
	set("statement_timeout", fmt.Sprint(statementTime.Milliseconds()))
	set("idle_in_transaction_session_timeout", fmt.Sprint(statementTime.Milliseconds()))
	if cfg.ConnConfig.ConnectTimeout == 0 {
		cfg.ConnConfig.ConnectTimeout = 2 * time.Second
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open Postgres: %w", err)
	}
	for {
		err := pool.Ping(ctx)
		if err == nil {
			return pool, nil
		}
		select {
		case <-time.After(250 * time.Millisecond):
		case <-ctx.Done():
			pool.Close()
			return nil, fmt.Errorf("database %s does not answer; start Postgres, or check --database-url: %w", Redacted(rawURL), err)
		}
	}
}

// OpenSQLite opens a database in a file, and makes it and its directory if
// they are not there. Every commit is on the disk before it returns. One
// process at a time may have it open.
func OpenSQLite(ctx context.Context, file string) (*sql.DB, error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return nil, fmt.Errorf("directory of the database: %w", err)
	}
	q := url.Values{"_txlock": {"immediate"}, "_pragma": {
		"busy_timeout(5000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)",
	}}
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Opaque: escape(file), RawQuery: q.Encode()}).String())
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", file, err)
	}
	// Readers beside one writer; more would only wait for its lock.
	db.SetMaxOpenConns(8)
	if err := db.PingContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", file, err), db.Close())
	}
	return db, os.Chmod(file, 0o600)
}

// escape makes a path the opaque part of a file: URL.
func escape(file string) string { return (&url.URL{Path: file}).EscapedPath() }

// Redacted is a database URL without its password, for people and logs.
func Redacted(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return "?"
	}
	q := u.Query()
	q.Del("password")
	u.RawQuery = q.Encode()
	return u.Redacted()
}
