package doors

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/libs/service/servicetest"
	"github.com/busbar-mcp/busbar/services/audit/trail"
)

// TestM16WhatTheTrailSays follows calls from a door to the audit service's database.
func TestM16WhatTheTrailSays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nests := service.New("nests", service.WithLogger(bustest.Logger(t)))
	service.AddTool(nests, service.Tool{Name: "nest", CallsTools: true}, func(ctx context.Context, c *service.Call, in struct {
		Key string `json:"key"`
	}) (string, error) {
		r, err := c.CallTool(ctx, service.ToolCall{Name: "plain", Arguments: map[string]any{"key": in.Key}})
		if err != nil {
			return "", err
		}
		return r.Text(), nil
	})
	servicetest.Join(t, bustest.Connect(t, w.nats), nests)
	for _, e := range w.edges {
		if err := e.Await(t.Context(), "nests"); err != nil {
			t.Fatal(err)
		}
	}
	rest := func(t *testing.T, path, body string, want int, headers ...string) []byte {
		t.Helper()
		resp, b := w.post(t.Context(), t, path, ada, body, headers...)
		if resp.StatusCode != want {
			t.Fatalf("%s: %d %s", path, resp.StatusCode, b)
		}
		return b
	}

	t.Run("an approval leaves who, when and which door", func(t *testing.T) {
		for word, agreed := range map[string]bool{"agreed": true, "declined": false} {
			key := "M16 " + word
			o := problem(t, rest(t, "/tools/approved", `{"key":"`+key+`"}`, http.StatusAccepted))
			id, before := o.data["approval"], time.Now()
			answer := `{"query":"mutation($id:String!){done:approve(id:$id,approve:` + map[bool]string{true: "true", false: "false"}[agreed] +
				`){is_error}}","variables":{"id":"` + id + `"}}`
			rest(t, "/graphql", answer, http.StatusOK)
			after := time.Now()
			rows := w.rowsOf(t, key, func(rows []trail.Row) bool {
				return slices.ContainsFunc(rows, func(r trail.Row) bool { return r.Approval != "" && r.Outcome != trail.Begun })
			})
			for _, r := range rows {
				if r.Approval == "" {
					if r.Outcome != "approval_required" {
						t.Errorf("%s: nobody's word is on the event %s %s", word, r.ID, r.Outcome)
					}
					continue
				}
				if r.Approval != word || r.ApprovalBy != "ada" || r.ApprovalDoor != "graphql" || r.ApprovalTime.Before(before) || r.ApprovalTime.After(after) {
					t.Errorf("%s between %v and %v is recorded as %+v", word, before, after, r.Details)
				}
			}
		}
	})

	t.Run("a nested call names the call it belongs to", func(t *testing.T) {
		const key = "M16 nested"
		rest(t, "/tools/nest", `{"key":"`+key+`"}`, http.StatusOK)
		rows := w.rowsOf(t, key, func(rows []trail.Row) bool { return len(rows) == 4 }) // begun and ok, of both
		calls := map[string]trail.Row{}
		for _, r := range rows {
			calls[r.Name] = r
		}
		outer, inner := calls["nest"], calls["plain"]
		if outer.Call == "" || outer.Call == inner.Call || outer.Parent != "" {
			t.Errorf("of %q within %q, the outer one has the parent %q", inner.Call, outer.Call, outer.Parent)
		}
		for _, r := range rows {
			if r.Name == "plain" && r.Parent != outer.Call {
				t.Errorf("the event %s %s has the parent %q, want %q", r.ID, r.Outcome, r.Parent, outer.Call)
			}
		}
	})

	t.Run("what is no traceparent is dropped", func(t *testing.T) {
		const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		for key, c := range map[string]struct{ sent, want string }{
			"M16 trace good": {good, good}, "M16 trace secret": {"password=hunter2", ""},
			"M16 trace upper": {"00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01", ""},
			"M16 trace zero":  {"00-00000000000000000000000000000000-b7ad6b7169203331-01", ""},
			"M16 trace long":  {good + "-password", ""},
		} {
			rest(t, "/tools/plain", `{"key":"`+key+`"}`, http.StatusOK, "Traceparent", c.sent)
			for _, r := range w.rowsOf(t, key, func(rows []trail.Row) bool { return len(rows) == 2 }) {
				if r.Traceparent != c.want {
					t.Errorf("%q is recorded as %q, want %q", c.sent, r.Traceparent, c.want)
				}
			}
		}
	})
}

// rowsOf waits for the rows of the calls with a key, until they are all.
func (w *world) rowsOf(t *testing.T, key string, all func([]trail.Row) bool) (rows []trail.Row) {
	t.Helper()
	bustest.Eventually(t, "the rows of "+key, func() bool {
		rows = nil
		for _, r := range w.trail(t) {
			if keyIn(r.Arguments) == key {
				rows = append(rows, r)
			}
		}
		return all(rows)
	})
	return rows
}
