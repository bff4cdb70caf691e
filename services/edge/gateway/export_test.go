package gateway

import (
	"context"
	"time"

	"github.com/busbar-mcp/busbar/services/edge/catalogue"
	"github.com/busbar-mcp/busbar/services/edge/store"
)

// Order has the names of the links.
func Order() (names []string) {
	for _, l := range order {
		names = append(names, l.name)
	}
	return names
}

// Delegate and Accept seal and open the delegation with which a call's service calls other tools.
func Delegate(ctx context.Context, s *store.Sealer, target catalogue.Target, until time.Time) ([]byte, error) {
	r := newRun(&Call{}, nil)
	r.Target = target
	return r.delegate(ctx, s, until)
}

func Accept(ctx context.Context, s *store.Sealer, delegation []byte) error {
	return newRun(&Call{Delegation: delegation, Service: "svc"}, nil).accept(ctx, s)
}

// Over is the error of a held call whose time has passed.
func Over(held *store.HeldCall) error { return over(held) }

// ToolDigest is the digest of a tool that a person approves.
func ToolDigest(target catalogue.Target) []byte {
	r := newRun(&Call{}, nil)
	r.Target = target
	return r.toolDigest()
}

// SameArguments is the one form of arguments that are equal.
func SameArguments(raw []byte) ([]byte, bool) { return sameArguments(raw) }
