// Package bustest gives tests a real bus: a NATS server with JetStream of their own, in a separate
// process (package beside) that ends with the test's. Start reading at Server and Connect;
// NewCluster, NewRegions and NewFleet are for larger buses.
package bustest

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/storage"
)

// Server starts a NATS server for the test and returns its URL.
func Server(t testing.TB) string {
	t.Helper()
	return Start(t, Config{}).URL
}

// Connect joins the bus at url for the length of the test, and creates its buckets.
func Connect(t testing.TB, url string) *bus.Conn {
	t.Helper()
	conn := Join(t, url)
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	if _, err := storage.Ensure(ctx, conn, storage.Auto); err != nil {
		t.Fatalf("prepare the bus: %v", err)
	}
	return conn
}

// Join is Connect without buckets.
func Join(t testing.TB, url string) *bus.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	conn, err := bus.Connect(ctx, bus.Config{URL: url, Name: t.Name(), Logger: Logger(t)})
	if err != nil {
		t.Fatalf("join the bus: %v", err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// Caller returns a caller on a connection for the length of the test.
func Caller(t testing.TB, conn *bus.Conn) *bus.Caller {
	t.Helper()
	caller, err := bus.NewCaller(conn)
	if err != nil {
		t.Fatalf("call over the bus: %v", err)
	}
	t.Cleanup(func() { _ = caller.Close() })
	return caller
}

// Logger writes the test's logs when run with -v, and drops them otherwise.
func Logger(t testing.TB) *slog.Logger {
	var w io.Writer = io.Discard
	if testing.Verbose() {
		w = t.Output()
	}
	return slog.New(slog.NewTextHandler(w, nil))
}

// Patience is how long a test waits for something that must happen: far longer than the slowest
// shared machine takes.
const Patience = time.Minute

// Promptly is how long an immediate event may take on such a machine. Events that a test must
// distinguish from it, such as the time limit of a call, take even longer.
const Promptly = 8 * time.Second

// Eventually waits until ok returns true, and fails the test with what after Patience. The longer
// it takes, the less often it asks: a tenth of the time too late.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for begun := time.Now(); !ok(); {
		waited := time.Since(begun)
		if waited > Patience {
			t.Fatalf("did not happen in %v: %s", Patience, what)
		}
		time.Sleep(min(max(waited/10, 5*time.Millisecond), 100*time.Millisecond))
	}
}
