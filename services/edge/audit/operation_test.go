package audit_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/permission"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/services/edge/audit"
)

// Who has another program's secret hears so from one error, and the log has nothing else.
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
