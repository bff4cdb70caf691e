// Package table implements store.Store in the tables of a SQL database. It uses only statements
// that both Postgres and SQLite understand. Start reading at Open.
package table

import (
	"context"
	"embed"
	"io/fs"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/busbar-mcp/busbar/libs/database"
	"github.com/busbar-mcp/busbar/services/resource/store"
)

//go:embed migrations
var files embed.FS

// Table is a store.Store.
type Table struct {
	db   database.Database
	keys *database.Keys
	now  func() time.Time
	room *room
}

var _ store.Store = (*Table)(nil)

// migrations are the directories of database.Config.
func migrations() fs.FS {
	sub, err := fs.Sub(files, "migrations")
	if err != nil {
		panic(err) // the name above is wrong
	}
	return sub
}

// Schema is the owner of the tables, and their version in this release.
func Schema() database.Schema { return database.SchemaOf("resource", migrations()) }

// Open opens the store in a database, and waits for the database until ctx ends. cfg needs only URL
// or File.
func Open(ctx context.Context, cfg database.Config, limits Limits) (*Table, error) {
	cfg.Owner, cfg.Holds, cfg.Migrations = "resource", "resources", migrations()
	db, err := database.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	keys, err := database.OpenKeys(ctx, db, cfg.Owner, limits.Keys)
	if err != nil {
		db.Close()
		return nil, err
	}
	return &Table{db: db, keys: keys, now: time.Now, room: &room{limits: limits, clock: time.Now}}, nil
}

// StoreID is the id of the data: see database.StoreID.
func (t *Table) StoreID(ctx context.Context) (string, error) {
	return database.StoreID(ctx, t.db, "resource")
}

// Away returns the reason why the database is away; see database.Database.
func (t *Table) Away() error { return t.db.Away() }

// Figures returns the metrics of the database.
func (t *Table) Figures() []prometheus.Collector { return t.db.Figures() }

// Close closes the database.
func (t *Table) Close() { t.db.Close() }
