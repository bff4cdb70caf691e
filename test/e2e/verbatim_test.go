package e2e

import "testing"

// TestIDInFlightTwice has a client use an id again while it is in use: the second call does not
// run. libs/mcp has ids, and numbers in arguments, byte for byte.
func TestIDInFlightTwice(t *testing.T) {
	e := testEdge.Use(t)
	t.Parallel()
	p := startPipe(t, "--nats", e.nats)
	// In one piece, so that the second is read while the first runs.
	p.write(modernBody(`"twice"`, "tools/call", `"name":"slow","arguments":{"key":"twice","ms":3000},`, "") + "\n" +
		modernBody(`"twice"`, "tools/call", `"name":"append","arguments":{"key":"second"},`, ""))
	first, second := p.await("one", response(`"twice"`)), p.await("the other", response(`"twice"`))
	if first.Error == nil || first.Error.Code != invalid || second.Error != nil {
		t.Errorf("answered %s and %s", first.raw, second.raw)
	}
	if e.ledger.Runs("second") != 0 {
		t.Error("the second ran")
	}
}
