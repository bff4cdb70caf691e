package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/jackc/pgx/v5"

	"github.com/busbar-mcp/busbar/test/faults/load"
	"github.com/busbar-mcp/busbar/test/faults/oracle"
)

// chain is the verdict of "busbar audit verify" on a chain.
type chain struct {
	Tenant  string `json:"tenant"`
	First   int64  `json:"first"`
	Last    int64  `json:"last"`
	Signed  int64  `json:"signed"`
	Problem *struct {
		Seq  int64  `json:"seq"`
		What string `json:"what"`
	} `json:"problem"`
}

const tailRemoved = "the tail is removed, and the head made to fit"

// tampering changes rows, and says which row of the trail is the first that is not as it was.
type tampering struct {
	what string
	do   func(ctx context.Context, db *pgx.Conn, at int64, last int64) (from, to int64, err error)
}

// one changes a row and expects it to be named.
func one(what, statement string) tampering {
	return tampering{what, func(ctx context.Context, db *pgx.Conn, at, _ int64) (int64, int64, error) {
		tag, err := db.Exec(ctx, statement, at)
		if err == nil && tag.RowsAffected() == 0 {
			err = fmt.Errorf("%s changed nothing at %d", what, at)
		}
		return at, at + 1, err
	}}
}

var tamperings = []tampering{
	one("who called is changed", `UPDATE audit_event SET principal = principal || 'x' WHERE tenant = '' AND seq = $1`),
	one("executed is changed", `UPDATE audit_event SET executed = CASE executed WHEN 'no' THEN 'yes' ELSE 'no' END WHERE tenant = '' AND seq = $1`),
	one("arguments are changed", `UPDATE audit_event SET arguments = arguments || ' ' WHERE tenant = '' AND seq = $1`),
	one("the time is changed", `UPDATE audit_event SET time = time + 1 WHERE tenant = '' AND seq = $1`),
	one("the hash is changed", `UPDATE audit_event SET hash = sha256(hash) WHERE tenant = '' AND seq = $1`),
	one("a row is removed", `DELETE FROM audit_event WHERE tenant = '' AND seq = $1`),
	one("rows are removed", `DELETE FROM audit_event WHERE tenant = '' AND seq >= $1::bigint AND seq < $1::bigint + 5`),
	one("all rows from one on are removed", `DELETE FROM audit_event WHERE tenant = '' AND seq >= $1`),
	{"rows change places", func(ctx context.Context, db *pgx.Conn, at, _ int64) (int64, int64, error) {
		_, err := db.Exec(ctx, `UPDATE audit_event SET seq = CASE seq WHEN $1::bigint THEN -1 ELSE -2 END WHERE tenant = '' AND seq IN ($1::bigint, $1::bigint + 1)`, at)
		if err == nil {
			_, err = db.Exec(ctx, `UPDATE audit_event SET seq = CASE seq WHEN -1 THEN $1::bigint + 1 ELSE $1::bigint END WHERE tenant = '' AND seq < 0`, at)
		}
		return at, at + 1, err
	}},
	{tailRemoved, func(ctx context.Context, db *pgx.Conn, at, _ int64) (int64, int64, error) {
		_, err := db.Exec(ctx, `DELETE FROM audit_event WHERE tenant = '' AND seq > $1`, at)
		if err == nil {
			_, err = db.Exec(ctx, `UPDATE audit_chain SET seq = $1::bigint, hash = (SELECT hash FROM audit_event WHERE tenant = '' AND seq = $1::bigint) WHERE tenant = ''`, at)
		}
		return at, at + 1, err
	}},
}

// tamper changes the trail behind its service's back, again and again, and sees whether
// the place is named.
func tamper(ctx context.Context, w *world) error {
	if _, err := w.under(ctx, load.Load{}, func(context.Context) error { return nil }); err != nil {
		return err
	}
	// Two instances sign at different times, which leaves no time to tamper between them.
	if err := w.fleet.Stop("audit-2"); err != nil {
		return err
	}
	db, err := w.database(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close(context.WithoutCancel(ctx)) }()
	n, located := 40, 0
	if w.full {
		n = 1000
	}
	r := rand.New(rand.NewPCG(w.seed, 10))
	var took time.Duration
	var c chain
	for i := 0; i < n; {
		if c, err = w.signed(ctx); err != nil {
			return err
		}
		if err := alone(ctx, db, func() error {
			_, err := db.Exec(ctx, `DROP TABLE IF EXISTS kept_event, kept_chain; CREATE TABLE kept_event AS SELECT * FROM audit_event; CREATE TABLE kept_chain AS SELECT * FROM audit_chain`)
			return err
		}); err != nil {
			return err
		}
		for until := time.Now().Add(beforeSigned); i < n && time.Now().Before(until); i++ {
			t, at := tamperings[i%len(tamperings)], c.First+1+r.Int64N(c.Last-c.First-10)
			var from, to int64
			if err := alone(ctx, db, func() (err error) {
				from, to, err = t.do(ctx, db, at, c.Last)
				return err
			}); err != nil {
				return err
			}
			began := time.Now()
			seen, err := w.verify(ctx)
			took += time.Since(began)
			if err != nil {
				return err
			}
			switch {
			case seen.Problem == nil:
				w.result.found(oracle.Finding{Oracle: oracle.Tampered, Text: fmt.Sprintf("%s at %d: not noticed", t.what, at)})
			case seen.Problem.Seq < from || seen.Problem.Seq > max(to, afterwards(t, seen)):
				w.result.found(oracle.Finding{Oracle: oracle.Tampered, Text: fmt.Sprintf("%s at %d: named is row %d, %s", t.what, at, seen.Problem.Seq, seen.Problem.What)})
			default:
				located++
			}
			if err := alone(ctx, db, func() error {
				_, err := db.Exec(ctx, `DELETE FROM audit_event; INSERT INTO audit_event SELECT * FROM kept_event; DELETE FROM audit_chain; INSERT INTO audit_chain SELECT * FROM kept_chain`)
				return err
			}); err != nil {
				return err
			}
		}
		if c, err = w.verify(ctx); err != nil || c.Problem != nil {
			return fmt.Errorf("the trail was not restored: %+v, %+v, %w", c, c.Problem, err)
		}
	}
	w.result.row("tamperings that were located", "all", "%d of %d, of %d kinds, in a chain of %d rows", located, n, len(tamperings), c.Last)
	w.result.row("a verification took", "", "%v with the start of the command", (took / time.Duration(n)).Round(time.Millisecond))
	return nil
}

// afterwards is the row behind those that the service has added meanwhile to a trail without
// its tail; 0 where that is there.
func afterwards(t tampering, c chain) int64 {
	if t.what != tailRemoved {
		return 0
	}
	return c.Last + 1
}

// beforeSigned is how long the trail may be taken back after it was signed: questions about
// it are events too, which are signed with the others, each minute.
const beforeSigned = 35 * time.Second

// signed waits until the trail has just been signed to its end, with the first of the
// questions about it: what is signed cannot be taken back.
func (w *world) signed(ctx context.Context) (c chain, err error) {
	asked := int64(-1)
	for deadline := time.Now().Add(3 * time.Minute); ; {
		if c, err = w.verify(ctx); err != nil {
			return c, err
		}
		if asked < 0 {
			asked = c.Last
		}
		switch {
		case c.Problem != nil:
			return c, fmt.Errorf("the trail is bad before anybody tampered: %+v", c)
		case c.Signed == c.Last && c.Signed > asked && c.Last > 100:
			return c, nil
		case time.Now().After(deadline):
			return c, fmt.Errorf("the trail is not signed to its end: %+v", c)
		}
		if err := pause(ctx, 2*time.Second); err != nil {
			return c, err
		}
	}
}

// alone makes changes while the service does not write. Otherwise each could hold rows of one table
// while it waits for the other table.
func alone(ctx context.Context, db *pgx.Conn, change func() error) error {
	_, err := db.Exec(ctx, `BEGIN; LOCK TABLE audit_chain, audit_event IN EXCLUSIVE MODE`)
	if err == nil {
		err = change()
	}
	if err != nil {
		_, _ = db.Exec(context.WithoutCancel(ctx), `ROLLBACK`)
		return err
	}
	_, err = db.Exec(ctx, `COMMIT`)
	return err
}

// verify returns the command's verdict on the chain of callers without a tenant.
func (w *world) verify(ctx context.Context) (c chain, err error) {
	out, failed := w.busbar(ctx, "audit", "verify", "--json", "--data-dir", filepath.Join(w.dir, "parts/edge-1/data"))
	var said struct {
		Chains []chain `json:"chains"`
	}
	if err := json.Unmarshal(out, &said); err != nil {
		return c, fmt.Errorf("audit verify: %w: %w", err, failed)
	}
	for _, c := range said.Chains {
		if c.Tenant == "" {
			return c, nil
		}
	}
	return c, fmt.Errorf("the trail has no chain of those without a tenant: %s", out)
}
