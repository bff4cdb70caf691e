package bus_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/permission"
	"github.com/busbar-mcp/busbar/libs/bus/storage"
	"github.com/busbar-mcp/busbar/libs/bustest"
)

// NATS reports the operator's permissions, which agree with the table, and the name of the server.
func TestAllowed(t *testing.T) {
	t.Parallel()
	conn := bustest.NewFleet(t).Join(t, permission.Operator, nil)
	got, err := conn.Allowed(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := permission.OfOperators()
	slices.Sort(got.Publish)
	slices.Sort(want.Publish)
	slices.Sort(got.Subscribe)
	slices.Sort(want.Subscribe)
	if !slices.Equal(got.Publish, want.Publish) || !slices.Equal(got.Subscribe, want.Subscribe) {
		t.Errorf("NATS says %q, the table %q", got, want)
	}
	ctx, cancel := context.WithTimeout(t.Context(), bustest.Patience)
	defer cancel()
	if p, err := conn.Peer(ctx); err != nil || p.Version == "" || p.Cluster != "" || p.Certificate != nil {
		t.Errorf("the server is %+v, %v", p, err)
	}
}

// A program that creates the buckets with a secret that is not an edge's is told so, and not that
// the bus is away.
func TestStorageIsMadeByEdges(t *testing.T) {
	t.Parallel()
	fleet := bustest.NewFleet(t)
	cfg := fleet.Config(t, permission.Operator)
	cfg.User = permission.Edge
	conn, err := bus.Connect(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), bustest.Patience)
	defer cancel()
	if _, err := storage.Ensure(ctx, conn, 0); err == nil || !strings.Contains(err.Error(), "edge.secret") || ctx.Err() != nil {
		t.Errorf("it is told %v", err)
	}
}
