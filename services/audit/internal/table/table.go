// Package table keeps the audit trail in the tables of a SQL database. A chain has one
// writer at a time, which holds the lock on the chain's row. Start with Table.Append.
package table

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/busbar-mcp/busbar/libs/database"
	"github.com/busbar-mcp/busbar/services/audit/trail"
)

//go:embed migrations
var files embed.FS

// appendTime bounds a transaction: a batch, or a step of pruning, on a slow disk.
const appendTime = 20 * time.Second

// Table is a trail.Store. A chain has one writer at a time, which holds the lock
// on its row in audit_chain.
type Table struct{ db database.Database }

var _ trail.Store = (*Table)(nil)

// migrations are the directories of database.Config.
func migrations() fs.FS {
	sub, err := fs.Sub(files, "migrations")
	if err != nil {
		panic(err) // the name above is wrong
	}
	return sub
}

// Schema is the owner of the tables, and the version of them that this release makes.
func Schema() database.Schema { return database.SchemaOf("audit", migrations()) }

// Open opens the store in a database, waiting for it until ctx ends. It needs only the
// place of cfg.
func Open(ctx context.Context, cfg database.Config) (*Table, error) {
	cfg.Owner, cfg.Holds, cfg.Migrations, cfg.Work = "audit", "the audit trail", migrations(), appendTime
	db, err := database.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return &Table{db}, nil
}

// StoreID is the id of the data: see database.StoreID.
func (t *Table) StoreID(ctx context.Context) (string, error) {
	return database.StoreID(ctx, t.db, "audit")
}

// Away says why the database is away; see database.Database.
func (t *Table) Away() error { return t.db.Away() }

// Figures are the metrics of the database.
func (t *Table) Figures() []prometheus.Collector { return t.db.Figures() }

// Close implements trail.Store.
func (t *Table) Close() { t.db.Close() }

func parameter(n int) string { return "$" + strconv.Itoa(n) }

// Append implements trail.Store.
func (t *Table) Append(ctx context.Context, events []trail.Event) (added int, err error) {
	byTenant := map[string][]*trail.Event{} // pointers: events are large
	var tenants []string
	ids := make([]string, len(events))
	for i := range events {
		e := &events[i]
		if byTenant[e.Tenant] == nil {
			tenants = append(tenants, e.Tenant)
		}
		byTenant[e.Tenant] = append(byTenant[e.Tenant], e)
		ids[i] = e.ID
	}
	if len(events) == 0 {
		return 0, nil
	}
	slices.Sort(tenants) // two writers take the locks in the same order
	err = t.write(ctx, func(ctx context.Context, tx database.Tx) error {
		chains, err := t.lock(ctx, tx, tenants)
		if err != nil {
			return err
		}
		// Under the locks, so the rows that another writer added are seen here.
		known, err := t.knownIDs(ctx, tx, ids, chains)
		if err != nil {
			return err
		}
		rows := make([]trail.Row, 0, len(events))
		for i := range chains {
			c := &chains[i]
			for _, e := range byTenant[c.Tenant] {
				if name := (eventName{e.ID, e.Edge}); !known[name] {
					known[name] = true
					rows = append(rows, c.Next(e))
				}
			}
		}
		if added = len(rows); added == 0 {
			return nil
		}
		if err := tx.Insert(ctx, "audit_event", trail.Columns, len(rows), func(i int) []any { return rows[i].Values() }); err != nil {
			return err
		}
		for _, c := range chains {
			if _, err := tx.Exec(ctx, "UPDATE audit_chain SET seq = $2, hash = $3 WHERE tenant = $1", c.Tenant, c.Seq, c.Hash.Blob()); err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, trail.ErrRejected) {
		err = cmp.Or(t.stray(ctx, tenants), err)
	}
	if err != nil {
		return 0, err
	}
	return added, nil
}

// stray returns a *trail.Stray if a chain of these tenants has a row behind its end: that
// row, not the event, is then why the event was refused. The end and the rows are read at
// one moment, so that rows which another instance writes meanwhile are not mistaken for
// such a row.
func (t *Table) stray(ctx context.Context, tenants []string) error {
	found, err := read(ctx, t, func(scan func(...any) error) (s trail.Stray, err error) {
		err = scan(&s.Tenant, &s.Seq, &s.ID, &s.End)
		return s, err
	}, "SELECT e.tenant, e.seq, e.id, c.seq FROM audit_chain AS c JOIN audit_event AS e ON e.tenant = c.tenant AND e.seq > c.seq WHERE "+
		t.db.Among("c.tenant", 1)+" ORDER BY e.tenant, e.seq LIMIT 1", tenants)
	if err != nil || len(found) == 0 {
		return err
	}
	return &found[0]
}

// eventName identifies an event, so that it is written once. It includes the edge: no
// edge can keep out an event of another one by using its id.
type eventName struct{ id, edge string }

// knownIDs are the events that these chains have. A row that stands in no place of its
// chain does not count as an event: otherwise anyone who writes an id into the table
// could keep an event out.
func (t *Table) knownIDs(ctx context.Context, tx database.Tx, ids []string, chains []trail.Chain) (map[eventName]bool, error) {
	type row struct {
		eventName
		tenant string
		seq    int64
	}
	found, err := database.All(ctx, tx, func(scan func(...any) error) (r row, err error) {
		err = scan(&r.id, &r.edge, &r.tenant, &r.seq)
		return r, err
	},
		"SELECT id, edge, tenant, seq FROM "+t.db.Seek("audit_event", "id", 1), ids)
	ends := make(map[string]int64, len(chains))
	for _, c := range chains {
		ends[c.Tenant] = c.Seq
	}
	known := make(map[eventName]bool, len(ids))
	for _, r := range found {
		if 0 < r.seq && r.seq <= ends[r.tenant] {
			known[r.eventName] = true
		}
	}
	return known, err
}

// lock locks the chains of tenants, which are sorted, and returns their ends in
// that order.
func (t *Table) lock(ctx context.Context, tx database.Tx, tenants []string) ([]trail.Chain, error) {
	heads := func() ([]trail.Chain, error) {
		return chains(ctx, tx, "WHERE "+t.db.Among("tenant", 1)+" ORDER BY tenant"+t.db.ForUpdate(), tenants)
	}
	all, err := heads()
	if err != nil || len(all) == len(tenants) {
		return all, err
	}
	for _, tenant := range tenants {
		if _, err := tx.Exec(ctx, "INSERT INTO audit_chain (tenant, seq, hash) VALUES ($1, 0, $2) ON CONFLICT DO NOTHING", tenant, trail.Genesis(tenant).Blob()); err != nil {
			return nil, err
		}
	}
	return heads()
}

// chains returns ends of chains in the order of tenants' bytes.
func chains(ctx context.Context, tx database.Tx, where string, args ...any) ([]trail.Chain, error) {
	all, err := database.All(ctx, tx, trail.ScanChain, "SELECT tenant, seq, hash FROM audit_chain AS c "+where, args...)
	slices.SortFunc(all, func(a, b trail.Chain) int { return strings.Compare(a.Tenant, b.Tenant) })
	return all, err
}

// write runs a transaction. If the database rejects it, the event is at fault.
func (t *Table) write(ctx context.Context, f func(context.Context, database.Tx) error) error {
	err := t.db.Write(ctx, f)
	if errors.Is(err, database.ErrRejected) {
		return fmt.Errorf("%w: %w", trail.ErrRejected, err)
	}
	return err
}

func insertCheckpoint(ctx context.Context, tx database.Tx, c *trail.Checkpoint) error {
	_, err := tx.Exec(ctx, "INSERT INTO audit_checkpoint ("+trail.CheckpointColumns+") VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING", c.Values()...)
	return err
}

// Checkpoint implements trail.Store.
func (t *Table) Checkpoint(ctx context.Context, sign trail.Signer) (made []trail.Checkpoint, err error) {
	err = t.write(ctx, func(ctx context.Context, tx database.Tx) error {
		made = nil
		grown, err := chains(ctx, tx, "WHERE seq > (SELECT coalesce(max(seq), 0) FROM audit_checkpoint WHERE tenant = c.tenant) ORDER BY tenant"+t.db.ForUpdate())
		if err != nil {
			return err
		}
		for _, chain := range grown {
			c := trail.Checkpoint{Tenant: chain.Tenant, Seq: chain.Seq, Hash: chain.Hash}
			sign(&c)
			if err := insertCheckpoint(ctx, tx, &c); err != nil {
				return err
			}
			made = append(made, c)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return made, nil
}

// Prune implements trail.Store.
func (t *Table) Prune(ctx context.Context, before time.Time, sign trail.Signer) (int64, error) {
	chains, err := t.Chains(ctx)
	if err != nil {
		return 0, err
	}
	return trail.PruneInSteps(chains, func(tenant string) (int64, error) { return t.pruneSome(ctx, tenant, before, sign) })
}

func (t *Table) pruneSome(ctx context.Context, tenant string, before time.Time, sign trail.Signer) (n int64, err error) {
	err = t.write(ctx, func(ctx context.Context, tx database.Tx) error {
		n = 0
		if _, err := t.lock(ctx, tx, []string{tenant}); err != nil {
			return err
		}
		c := trail.Checkpoint{Tenant: tenant, Pruned: true}
		// The last of the oldest rows that are all too old.
		found, err := database.One(ctx, tx, `SELECT seq, hash FROM (
				SELECT seq, hash, min(CASE WHEN time < $2 THEN 1 ELSE 0 END) OVER (ORDER BY seq) AS old FROM (
					SELECT seq, hash, time FROM audit_event WHERE tenant = $1 ORDER BY seq LIMIT $3) AS first) AS marked
			WHERE old = 1 ORDER BY seq DESC LIMIT 1`, []any{tenant, before.UnixNano(), trail.PruneStep}, &c.Seq, (*[]byte)(&c.Hash))
		if err != nil || !found {
			return err
		}
		sign(&c)
		if err := insertCheckpoint(ctx, tx, &c); err != nil {
			return err
		}
		if n, err = tx.Exec(ctx, "DELETE FROM audit_event WHERE tenant = $1 AND seq <= $2", tenant, c.Seq); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "DELETE FROM audit_checkpoint WHERE tenant = $1 AND (seq < $2 OR seq = $2 AND NOT pruned)", tenant, c.Seq)
		return err
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}
