package bus

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus/internal/subject"
)

// Lender is the service that clients are who lend their models: each takes
// calls of its own principal's, at the edge that holds its connection. It is in
// no registry, and no other service may have its name.
const Lender = subject.Lender

// lendersOf is where the lenders of one principal are called, by its id, which
// may hold anything.
func lendersOf(principal string) string {
	sum := sha256.Sum256([]byte(principal))
	return Lender + "." + hex.EncodeToString(sum[:16])
}

// Lend takes calls for one client of a principal, sharing them with the
// principal's other clients. Unlike Serve it does not wait for the bus: while
// that is away nobody can call either. Drain the server when the client goes.
func (c *Caller) Lend(principal string, h Handler) (*Server, error) {
	return serve(c.conn, lendersOf(principal), ServerConfig{Service: Lender, Handler: h})
}

// Borrow is Call for the clients of a principal that lend their models. When
// there is none, the error is Unavailable because of ErrNoInstance.
func (c *Caller) Borrow(ctx context.Context, principal string, req *busv1.Request) (*busv1.Frame, error) {
	return c.call(ctx, Lender, lendersOf(principal), req, Options{})
}
