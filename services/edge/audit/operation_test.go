package audit_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/permission"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/audit"
	"github.com/busbar-mcp/busbar/services/edge/store"
)

// A caller with another program's secret gets one error that says so, and the log has no
// other line.
func TestOperationWithAnotherSecret(t *testing.T) {
	t.Parallel()
	fleet := bustest.NewFleet(t, bustest.Of(t, "svc"))
	cfg := fleet.Config(t, "svc")
	log := &bustest.Log{}
	cfg.User, cfg.EndRefused, cfg.Logger = permission.Operator, true, slog.New(slog.NewTextHandler(log, nil))
	conn, err := bus.Connect(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	err = audit.Operation(t.Context(), conn, "busbar/test", "name", "svc", func() error {
		t.Error("it was done")
		return nil
	})
	conn.Close()
	if err == nil || !strings.Contains(err.Error(), "nothing was done: the secret that was given is not the operator's") {
		t.Error(err)
	}
	if log.String() != "" {
		t.Errorf("the log has %s", log.String())
	}
}

// A second key with a name that is taken is not made, and the trail says so.
func TestKeyOfATakenName(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.join(t, "", true) // it makes the buckets
	conn := bustest.Connect(t, w.url)
	keys := store.NewAPIKeys(conn)
	create := func() error {
		return audit.Operation(t.Context(), conn, "busbar/key.create", "laptop of anna", "", func() error {
			_, err := keys.Create(t.Context(), "laptop", "anna", time.Time{})
			return err
		})
	}
	if err := create(); err != nil {
		t.Fatal(err)
	}
	if err := create(); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), `there is a key "laptop" already`) {
		t.Error(err)
	}
	var got []string
	for _, e := range w.stream(t) {
		got = append(got, e.Outcome+" "+e.Executed)
	}
	if want := "begun unknown, ok yes, begun unknown, conflict no"; strings.Join(got, ", ") != want {
		t.Errorf("recorded is %v, want %s", got, want)
	}
	if all, err := keys.All(t.Context()); len(all) != 1 || err != nil {
		t.Errorf("%v %v", all, err)
	}
}
