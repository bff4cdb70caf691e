package trailtest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/services/audit/trail"
)

// found requires that verifying names a row of tenant a, and says what is wrong.
func found(t testing.TB, s trail.Store, trusted trail.Trusted, witnesses []trail.Checkpoint, seq int64, says string) {
	t.Helper()
	r, err := trail.Verify(t.Context(), s, trusted, witnesses, everyTenant)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range r.Chains {
		if c.Tenant == "a" && c.Problem != nil {
			if c.Problem.Seq != seq || !strings.Contains(c.Problem.What, says) || r.OK {
				t.Errorf("found %+v; want row %d, %q", *c.Problem, seq, says)
			}
			return
		}
	}
	t.Errorf("not found; want row %d, %q", seq, says)
}

// swap is a statement that exchanges the places of two rows, by way of a free one.
func swap(a, b int64) []string {
	return []string{
		fmt.Sprintf("UPDATE audit_event SET seq = -1 WHERE tenant = 'a' AND seq = %d", a),
		fmt.Sprintf("UPDATE audit_event SET seq = %d WHERE tenant = 'a' AND seq = %d", a, b),
		fmt.Sprintf("UPDATE audit_event SET seq = %d WHERE tenant = 'a' AND seq = -1", b),
	}
}

// copyRow adds a row with a number and an id of its own behind row 40.
const copyRow = `INSERT INTO audit_event SELECT tenant, 41, 'FORGED-2', call, time, principal, client_name, client_version, door, method, name, service,
	arguments, arguments_note, arguments_digest, outcome, executed, duration, edge, traceparent, idempotency_digest, delayed, hash, more
	FROM audit_event WHERE tenant = 'a' AND seq = 40`

// stray puts a row where the next one of a chain belongs. Nothing is added to that chain,
// the error names the row, and no event is called at fault. When the row is gone, the
// chain goes on.
func stray(t *testing.T, e Engine) {
	s := open(t, e)
	_, trusted := Key(t)
	Append(t, s, 40, Events("a", 1, 40)...)
	e.Exec(copyRow)
	next := append(Events("b", 1, 2), Events("a", 41, 42)...)
	n, err := s.Append(t.Context(), next)
	var row *trail.Stray
	if n != 0 || !errors.As(err, &row) || errors.Is(err, trail.ErrRejected) || *row != (trail.Stray{Tenant: "a", Seq: 41, End: 40, ID: "FORGED-2"}) {
		t.Errorf("%d added, %v", n, err)
	}
	if len(row.Error()) > 200 {
		t.Errorf("%q does not fit what an instance says of itself", row.Error())
	}
	Append(t, s, 2, next[:2]...) // another chain goes on
	e.Exec("DELETE FROM audit_event WHERE id = 'FORGED-2'")
	Append(t, s, 2, next...)
	Verify(t, s, trusted)
}

// impostor puts a row with the id of an event that is still to come in each place where
// no event belongs. The event is not taken for a known one: the store refuses it, and if
// a chain cannot go on, the error names the row.
func impostor(t *testing.T, start func(*testing.T) Engine) {
	for name, c := range map[string]struct {
		tenant, seq string
		stray       bool
	}{
		"behind the end":              {"tenant", "45", true},
		"before the first":            {"tenant", "0", false},
		"of a tenant without a chain": {"'nobody'", "1", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := start(t)
			s := open(t, e)
			Append(t, s, 40, Events("a", 1, 40)...)
			next := Event("a", 41)
			row := strings.Replace(strings.Replace(copyRow, "tenant,", c.tenant+",", 1), "41", c.seq, 1)
			e.Exec(strings.Replace(row, "FORGED-2", next.ID, 1))
			n, err := s.Append(t.Context(), []trail.Event{next})
			if n != 0 || errors.As(err, new(*trail.Stray)) != c.stray || errors.Is(err, trail.ErrRejected) == c.stray {
				t.Errorf("%d added, %v", n, err)
			}
		})
	}
}

// unsigned removes the rows since the last signature and moves the end of the chain. No
// check can see that, and the report says so for as long as there are unsigned rows.
func unsigned(t *testing.T, e Engine) {
	s := open(t, e)
	sign, trusted := Key(t)
	says := func(r trail.Report, rows string) {
		t.Helper()
		all := strings.Join(r.Unknown, "\n")
		if strings.Contains(all, "newer than the last signature") != (rows != "") || !strings.Contains(all, rows) || !strings.Contains(all, "the disk of NATS") {
			t.Errorf("it says %q, want %q", all, rows)
		}
	}
	Append(t, s, 4, append(Events("a", 1, 3), Event("b", 1))...)
	says(Verify(t, s, trusted), "4 rows at the ends of 2 chains")
	kept, err := s.Checkpoint(t.Context(), sign)
	if err != nil {
		t.Fatal(err)
	}
	says(Verify(t, s, trusted, kept...), "")
	Append(t, s, 3, Events("a", 4, 6)...)
	e.Exec("DELETE FROM audit_event WHERE tenant = 'a' AND seq > 4")
	e.Exec("UPDATE audit_chain SET seq = 4, hash = (SELECT hash FROM audit_event WHERE tenant = 'a' AND seq = 4) WHERE tenant = 'a'")
	says(Verify(t, s, trusted, kept...), "1 rows at the ends of 1 chains")
}

// tampering does to a trail of 40 rows everything that somebody with the database could
// do. The trail has checkpoints at 10 and 20, and the last one is also kept elsewhere.
func tampering(t *testing.T, start func(*testing.T) Engine) {
	cases := map[string]struct {
		do   []string
		seq  int64
		says string
	}{
		"delete a row":                        {[]string{"DELETE FROM audit_event WHERE tenant = 'a' AND seq = 7"}, 7, "missing"},
		"delete the first":                    {[]string{"DELETE FROM audit_event WHERE tenant = 'a' AND seq = 1"}, 1, "missing"},
		"delete the tail":                     {[]string{"DELETE FROM audit_event WHERE tenant = 'a' AND seq > 30"}, 31, "the chain says"},
		"reorder":                             {swap(5, 6), 5, "changed"},
		"insert":                              {[]string{copyRow}, 41, "changed"},
		"insert before the first":             {[]string{strings.Replace(copyRow, "41", "0", 1)}, 0, "added"},
		"insert far before the first":         {[]string{strings.Replace(copyRow, "41", "-7", 1)}, -7, "added"},
		"swap tenants":                        {[]string{"UPDATE audit_event SET tenant = 'c' WHERE tenant = 'a' AND seq = 9", "UPDATE audit_event SET tenant = 'a' WHERE tenant = 'b' AND seq = 9"}, 9, "changed"},
		"delete the tail and move the end":    {[]string{"DELETE FROM audit_event WHERE tenant = 'a' AND seq > 15", "UPDATE audit_chain SET seq = 15, hash = (SELECT hash FROM audit_event WHERE tenant = 'a' AND seq = 15) WHERE tenant = 'a'"}, 16, "a checkpoint that was kept elsewhere"},
		"that, and its checkpoints":           {[]string{"DELETE FROM audit_event WHERE tenant = 'a' AND seq > 15", "DELETE FROM audit_checkpoint WHERE tenant = 'a' AND seq > 15", "UPDATE audit_chain SET seq = 15, hash = (SELECT hash FROM audit_event WHERE tenant = 'a' AND seq = 15) WHERE tenant = 'a'"}, 16, "kept elsewhere"},
		"the whole tenant":                    {[]string{"DELETE FROM audit_event WHERE tenant = 'a'", "DELETE FROM audit_chain WHERE tenant = 'a'", "DELETE FROM audit_checkpoint WHERE tenant = 'a'"}, 1, "kept elsewhere"},
		"a checkpoint with another hash":      {[]string{"UPDATE audit_checkpoint SET hash = key WHERE tenant = 'a' AND seq = 10"}, 10, "not signed"},
		"a checkpoint that says it is pruned": {[]string{"UPDATE audit_checkpoint SET pruned = (1 = 1) WHERE tenant = 'a' AND seq = 10", "DELETE FROM audit_event WHERE tenant = 'a' AND seq <= 10"}, 10, "no trusted key signed"},
	}
	build := func(t *testing.T, e Engine) (trail.Store, trail.Trusted, []trail.Checkpoint) {
		s := open(t, e)
		sign, trusted := Key(t)
		var kept []trail.Checkpoint
		for last := 10; last <= 20; last += 10 {
			Append(t, s, 20, append(Events("a", last-9, last), Events("b", last-9, last)...)...)
			made, err := s.Checkpoint(t.Context(), sign)
			if err != nil {
				t.Fatal(err)
			}
			kept = made
		}
		Append(t, s, 20, Events("a", 21, 40)...)
		Verify(t, s, trusted, kept...)
		return s, trusted, kept
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := start(t)
			s, trusted, kept := build(t, e)
			for _, statement := range c.do {
				e.Exec(statement)
			}
			found(t, s, trusted, kept, c.seq, c.says)
		})
	}
	t.Run("insert a tenant", func(t *testing.T) {
		t.Parallel()
		e := start(t)
		s, trusted, kept := build(t, e)
		e.Exec(strings.Replace(strings.Replace(copyRow, "tenant,", "'nobody',", 1), "41", "1", 1))
		r, err := trail.Verify(t.Context(), s, trusted, kept, everyTenant)
		if err != nil || r.OK || len(r.Chains) != 3 || r.Chains[2].Tenant != "nobody" || r.Chains[2].Problem == nil || r.Chains[2].Problem.Seq != 1 {
			t.Errorf("%+v, %v", r, err)
		}
	})
	t.Run("edit a field", func(t *testing.T) {
		t.Parallel()
		e := start(t)
		s, trusted, kept := build(t, e)
		seq := int64(40) // each edit comes before the one that was found last
		edit := func(field, value string) {
			seq--
			e.Exec(fmt.Sprintf("UPDATE audit_event SET %s = %s WHERE tenant = 'a' AND seq = %d", field, value, seq))
			found(t, s, trusted, kept, seq, "changed")
		}
		for _, field := range []string{
			"id", "call", "principal", "client_name", "client_version", "door", "method", "name", "service", "arguments", "arguments_note",
			"outcome", "executed", "edge", "traceparent", "more",
		} {
			edit(field, field+" || 'x'")
		}
		edit("time", "time + 1")
		edit("duration", "duration + 1")
		edit("delayed", "NOT delayed")
		for _, field := range []string{"arguments_digest", "idempotency_digest", "hash"} {
			edit(field, "(SELECT key FROM audit_checkpoint WHERE tenant = 'a' AND seq = 10)")
		}
	})
	// A chain that is rewritten from the first row, with every hash right, differs from
	// the signed checkpoints, or, without checkpoints in the database, from those kept
	// elsewhere.
	for name, c := range map[string]struct {
		forget string
		seq    int64
	}{
		"rewrite the whole chain":          {"", 10},
		"that, and forget its checkpoints": {"DELETE FROM audit_checkpoint", 20},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := start(t)
			s, trusted, kept := build(t, e)
			e.Exec("DELETE FROM audit_event WHERE tenant = 'a'")
			e.Exec("DELETE FROM audit_chain WHERE tenant = 'a'")
			forged := Events("a", 1, 40)
			forged[3].Outcome = "ok, really"
			Append(t, s, 40, forged...)
			if c.forget != "" {
				e.Exec(c.forget)
			}
			found(t, s, trusted, kept, c.seq, "rewritten")
		})
	}
	t.Run("sign with a key that is not trusted", func(t *testing.T) {
		t.Parallel()
		e := start(t)
		s, trusted, kept := build(t, e)
		other, _ := Key(t)
		if _, err := s.Checkpoint(t.Context(), other); err != nil {
			t.Fatal(err)
		}
		found(t, s, trusted, kept, 40, "not signed")
	})
}
