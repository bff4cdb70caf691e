package trailtest

import (
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

// moved is a statement that gives a row another place, by way of a free one.
func swap(a, b int64) []string {
	return []string{
		fmt.Sprintf("UPDATE audit_event SET seq = -1 WHERE tenant = 'a' AND seq = %d", a),
		fmt.Sprintf("UPDATE audit_event SET seq = %d WHERE tenant = 'a' AND seq = %d", a, b),
		fmt.Sprintf("UPDATE audit_event SET seq = %d WHERE tenant = 'a' AND seq = -1", b),
	}
}

// tampering does to a trail of 40 rows, with checkpoints at 10 and 20 and the
// last one kept elsewhere too, what somebody with the database could.
func tampering(t *testing.T, start func(*testing.T) Engine) {
	const copyRow = `INSERT INTO audit_event SELECT tenant, 41, 'FORGED-2', call, time, principal, client_name, client_version, door, method, name, service,
		arguments, arguments_note, arguments_digest, outcome, executed, duration, edge, traceparent, idempotency_digest, delayed, hash, more
		FROM audit_event WHERE tenant = 'a' AND seq = 40`
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
	t.Run("edit a field", func(t *testing.T) {
		t.Parallel()
		e := start(t)
		s, trusted, kept := build(t, e)
		seq := int64(40) // each edit before the one that was found last
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
	// Rewritten from the first row on, each hash right, it differs from what was
	// signed; without checkpoints in the database, from what is kept elsewhere.
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
