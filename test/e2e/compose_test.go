package e2e

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/services/edge/access"
)

// TestAccessOfTheFleet holds the policy file of docker-compose.yml to the services that
// it is for: each is granted what it offers and says it does, by name, and nothing that
// is not there.
func TestAccessOfTheFleet(t *testing.T) {
	t.Parallel()
	const file = "../../deploy/compose/access.yaml"
	p, err := access.ReadPolicy(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range p.File().Services {
		for _, one := range s.Offers {
			if name == "*" || one == "*" || one == "tools/*" {
				t.Errorf("service %s is granted %s, which says nothing", name, one)
			}
		}
	}
	_, dev := startDev(t, "--access", file, "--without", "workspace")
	start(t, "hello", "--nats", dev.nats) // the example of a service of one's own
	awaitInstances(t, dev.nats, "hello", 1)
	r, err := http.Get(strings.TrimSuffix(dev.mcp, "/mcp") + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil || !strings.Contains(string(body), "access: policy ") || strings.Contains(string(body), "not granted") {
		t.Errorf("%s %v", body, err)
	}
	if code, said, errs := busbar(t, nil, "access", "check", file, "--url", dev.mcp); code != 0 {
		t.Errorf("%s%s", said, errs)
	}
}
