// Command notes is a service on a Busbar bus that keeps notes in a database: Postgres for
// a fleet, SQLite in a file where nothing is configured.
package main

import (
	"context"
	"crypto/rand"
	"embed"
	"io/fs"
	"time"

	"github.com/busbar-mcp/busbar/libs/database"
	"github.com/busbar-mcp/busbar/libs/service"
)

// The tables. Each file of migrations/both is a version of them; a new version is a new file.
//
//go:embed migrations
var embedded embed.FS

// maxNotes bounds the notes of one tenant.
const maxNotes = 10_000

type entry struct {
	Text string `json:"text" jsonschema:"what is noted" schema:"minLength=1,maxLength=1000"`
}

type note struct {
	ID     string    `json:"id"`
	Author string    `json:"author"`
	Text   string    `json:"text"`
	Added  time.Time `json:"added"`
}

type list struct {
	Notes []note `json:"notes" jsonschema:"the newest first"`
}

type notes struct{ db database.Database }

func (n notes) add(ctx context.Context, call *service.Call, in entry) (note, error) {
	out := note{ID: rand.Text(), Author: call.Principal(), Text: in.Text, Added: time.Now().UTC().Truncate(time.Millisecond)}
	err := n.db.Write(ctx, func(ctx context.Context, tx database.Tx) error {
		var there int
		if _, err := database.One(ctx, tx, "SELECT count(*) FROM notes_note WHERE tenant = $1", []any{call.Tenant()}, &there); err != nil {
			return err
		}
		if there >= maxNotes {
			return service.Conflict("there are %d notes, and no room for another one", there)
		}
		_, err := tx.Exec(ctx, "INSERT INTO notes_note (tenant, id, author, text, added) VALUES ($1, $2, $3, $4, $5)",
			call.Tenant(), out.ID, out.Author, out.Text, out.Added.UnixMilli())
		return err
	})
	return out, err
}

func (n notes) list(ctx context.Context, call *service.Call, _ struct{}) (out list, err error) {
	err = n.db.Read(ctx, func(ctx context.Context, tx database.Tx) error {
		out.Notes, err = database.All(ctx, tx, scan, "SELECT id, author, text, added FROM notes_note WHERE tenant = $1 ORDER BY added DESC, id LIMIT 100", call.Tenant())
		return err
	})
	return out, err
}

func scan(columns func(...any) error) (out note, err error) {
	var added int64
	err = columns(&out.ID, &out.Author, &out.Text, &added)
	out.Added = time.UnixMilli(added).UTC()
	return out, err
}

func build(ctx context.Context, env service.DataEnv) (*service.Service, error) {
	migrations, err := fs.Sub(embedded, "migrations")
	if err != nil {
		return nil, err
	}
	db, err := database.Open(ctx, database.Config{
		URL: env.DatabaseURL, File: env.File("notes.db"), Owner: "notes", Holds: "notes", Migrations: migrations,
	})
	if err != nil {
		return nil, err
	}
	s := service.New("notes", service.WithVersion(env.Version), service.WithLogger(env.Log), service.WithNamespace("notes"))
	s.OnStop(db.Close)
	s.Check("database", db.Away)  // for /readyz
	s.AddMetrics(db.Figures()...) // for /metrics
	id, err := database.StoreID(ctx, db, "notes")
	if err != nil {
		s.Close()
		return nil, err
	}
	s.SetStore(id) // an instance on other data is refused
	n := notes{db}
	service.AddTool(s, service.Tool{Name: "add", Description: "Adds a note."}, n.add)
	service.AddTool(s, service.Tool{Name: "list", Description: "Lists the newest 100 notes.", ReadOnly: true}, n.list)
	return s, nil
}

func main() { service.Main("notes", build) }
