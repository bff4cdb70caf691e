package edges_test

import (
	"testing"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus/edges"
)

// Whoever comes back for an answer is told of the call, also when an instance died and
// another one has it as a second attempt.
func TestStreamNamesItsCall(t *testing.T) {
	t.Parallel()
	s := &edges.Stream{Name: "stream", Home: "home"}
	if got := s.Call(); got != "" {
		t.Errorf("before the first call it is %q", got)
	}
	for _, request := range []string{"3OC7FHO6MCUFJD3OQHQDGHGY5M", "3OC7FHO6MCUFJD3OQHQDGHGY5M-2", "3OC7FHO6MCUFJD3OQHQDGHGY5M-3"} {
		s.Next("svc", &busv1.Request{Id: request})
		if got := s.Call(); got != "3OC7FHO6MCUFJD3OQHQDGHGY5M" {
			t.Errorf("of request %s it is %q", request, got)
		}
	}
}
