// Package matrix tests every feature that crosses the edge, in every protocol
// version, over every transport: over HTTP against two edges behind a load
// balancer without stickiness, so that what belongs together arrives apart.
package matrix

import (
	"testing"

	"github.com/busbar-mcp/busbar/libs/mcp"
)

// features are the rows; each proves one with a client of its own.
var features = []struct {
	name  string
	prove func(t *testing.T, w *world, c *client)
}{
	{"call", plainCall},
	{"icons", icons},
	{"progress", progress},
	{"log", logs},
	{"elicitation", elicitation},
	{"sampling", sampling},
	{"roots", roots},
	{"cancel", cancelled},
	{"list_changed", listChanged},
	{"resource_updated", resourceUpdated},
}

// TestMatrix has a subtest for each cell, such as
// TestMatrix/2025-06-18/streamable/elicitation.
//
// Streamable HTTP is of 2025-03-26 and HTTP with SSE of 2024-11-05 alone, but a
// client settles the version after it has chosen the transport, and real ones
// come in all these combinations. 2026-07-28 has no session, so it cannot go
// over HTTP with SSE, which is one: TestSSEStaysLegacy.
func TestMatrix(t *testing.T) {
	t.Parallel()
	for _, version := range []string{mcp.V20241105, mcp.V20250326, mcp.V20250618, mcp.V20251125, mcp.V20260728} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			for _, transport := range []string{streamableTransport, sseTransport, stdioTransport} {
				if version == mcp.Modern && transport == sseTransport {
					continue
				}
				t.Run(transport, func(t *testing.T) {
					t.Parallel()
					w := newWorld(t, transport)
					for _, f := range features {
						t.Run(f.name, func(t *testing.T) {
							t.Parallel()
							c := w.connect(t, version, transport)
							if c.version != version {
								t.Fatalf("the client speaks %s", c.version)
							}
							f.prove(t, w, c)
						})
					}
				})
			}
		})
	}
}

// TestSSEStaysLegacy has a client try 2026-07-28 over HTTP with SSE: it is told
// which versions there are, and settles for one.
func TestSSEStaysLegacy(t *testing.T) {
	t.Parallel()
	c := newWorld(t, sseTransport).connect(t, mcp.Modern, sseTransport)
	try := c.tap.await("server/discover", sent(mcp.MethodDiscover))
	no := c.tap.await("the refusal", func(m message) bool { return m.answers(try) })
	want := `["` + mcp.V20251125 + `","` + mcp.V20250618 + `","` + mcp.V20250326 + `","` + mcp.V20241105 + `"]`
	if got := member(no.Error, []string{"data", "supported"}); got != want || member(no.Error, []string{"code"}) != "-32022" {
		t.Errorf("refused with %s", no.Error)
	}
	if c.version != mcp.LegacyLatest {
		t.Errorf("settled for %s", c.version)
	}
	plainCall(t, nil, c)
}
