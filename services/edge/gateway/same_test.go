package gateway_test

import (
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// Sorting takes time by size and depth. So arguments that a service sends, which no door has
// measured, are not sorted beyond the depth that doors allow.
func TestDeepArgumentsAreNotSorted(t *testing.T) {
	t.Parallel()
	for depth, want := range map[int]bool{1: true, 64: true, 65: false, 9000: false} {
		raw := strings.Repeat(`{"b":0,"a":`, depth) + "0" + strings.Repeat("}", depth)
		if _, ok := gateway.SameArguments([]byte(raw)); ok != want {
			t.Errorf("%d levels: %t, want %t", depth, ok, want)
		}
	}
}
