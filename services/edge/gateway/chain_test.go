package gateway_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// docs/explanation/architecture.md shows the links in their order.
func TestDocumentedOrder(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/explanation/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^ +gateway +(\w+\(.*) \)$`).FindSubmatch(page)
	if line == nil {
		t.Fatal("docs/explanation/architecture.md does not show the chain as: gateway  vouch( … )")
	}
	names := gateway.Order()
	if want := names[0] + "( " + strings.Join(names[1:], " · "); string(line[1]) != want {
		t.Errorf("docs/explanation/architecture.md shows\n%s ), the chain is\n%s )", line[1], want)
	}
}
