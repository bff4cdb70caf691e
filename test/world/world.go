// Package world starts edges for tests, with their doors on loopback.
package world

import (
	"context"
	"net"
	"testing"

	rpc "google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	gatewayv1 "github.com/busbar-mcp/busbar/gen/busbar/gateway/v1"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/services/edge"
)

// Edge is an edge that serves until the test ends.
type Edge struct {
	Host    string // host:port of the doors over HTTP
	Target  string // host:port of gRPC
	Gateway gatewayv1.GatewayServiceClient
}

// Serve starts an edge on a bus, and waits until it knows services by their names. The options are
// for its client of gRPC.
func Serve(t testing.TB, nats string, cfg edge.Config, services []string, options ...rpc.DialOption) Edge {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bustest.Patience)
	defer cancel()
	cfg.Version = "1"
	if cfg.Logger == nil {
		cfg.Logger = bustest.Logger(t)
	}
	e, err := edge.New(ctx, bustest.Join(t, nats), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	if err := e.Await(ctx, services...); err != nil {
		t.Fatal(err)
	}
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	l := &edge.Listeners{HTTP: listen(), GRPC: listen()}
	serving, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.ServeAll(serving, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	served := Edge{Host: l.HTTP.Addr().String(), Target: l.GRPC.Addr().String()}
	conn, err := rpc.NewClient(served.Target, append(options, rpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	served.Gateway = gatewayv1.NewGatewayServiceClient(conn)
	return served
}
