package edge_test

import (
	"context"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/libs/service/servicetest"
	"github.com/busbar-mcp/busbar/services/edge"
	"github.com/busbar-mcp/busbar/services/edge/access"
	"github.com/busbar-mcp/busbar/services/edge/door"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

// governed are edges with one policy file.
type governed struct {
	t     *testing.T
	file  string
	edges []*edge.Edge
	doors []http.Handler
	live  []*access.Live
}

// govern joins edges that share one policy file.
func (w world) govern(t *testing.T, n int, file string) *governed {
	t.Helper()
	g := &governed{t: t, file: filepath.Join(t.TempDir(), "access.yaml")}
	g.put(file)
	for range n {
		live, err := access.Open(g.file, bustest.Logger(t))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(live.Close)
		e := w.Join(t, edgetest.As(named{}), func(cfg *edge.Config) { cfg.Access = live })
		g.edges, g.doors, g.live = append(g.edges, e.Edge), append(g.doors, e.Handler(door.Guard{Loopback: true})), append(g.live, live)
	}
	return g
}

func (g *governed) put(file string) { write(g.t, g.file, file) }

// ask makes a request as a principal at one of the edges.
func (g *governed) ask(edge int, who, method, path, body string) (int, string) {
	var header []string
	if who != "" {
		header = []string{"Authorization", "Bearer " + who}
	}
	w := ask(g.t, g.doors[edge], method, path, body, header...)
	return w.Code, w.Body.String()
}

// everybody lets ada do everything.
const everybody = "roles: {all: {allow: [\"*\"]}}\nprincipals: {ada: {tenant: acme, roles: [all]}}\n"

// A service calls only those tools that the policy file grants it, whichever edge takes
// the call.
func TestH8CallsAreGranted(t *testing.T) {
	t.Parallel()
	w := start(t)
	relay := service.New("relay", service.WithLogger(slog.New(slog.DiscardHandler)))
	service.AddTool(relay, service.Tool{Name: "relay", CallsTools: true, Timeout: time.Minute}, func(ctx context.Context, c *service.Call, in struct {
		Tool string `json:"tool"`
	}) (string, error) {
		r, err := c.CallTool(ctx, service.ToolCall{Name: in.Tool})
		if err != nil {
			return "refused: " + err.Error(), nil
		}
		return r.Text(), nil
	})
	servicetest.Join(t, bustest.Connect(t, w.Bus), relay)
	g := w.govern(t, 2, everybody)
	calls := func(tool, want string) func() bool {
		return func() bool {
			for i := range g.doors {
				if code, body := g.ask(i, "ada", http.MethodPost, "/tools/relay", `{"tool":"`+tool+`"}`); code != http.StatusOK || !strings.Contains(body, want) {
					return false
				}
			}
			return true
		}
	}
	bustest.Eventually(t, "without a grant it calls nothing", calls("safe", "services.relay.calls of the edge's policy file grants it"))
	bustest.Eventually(t, "the edges say so", func() bool {
		_, body := get(t, g.doors[0], "/readyz")
		return strings.Contains(body, "; not granted to services: ")
	})
	var out strings.Builder
	list := edge.ListServices{}
	list.NATS, list.Access = w.Bus, g.file
	if err := list.Run(t.Context(), &out); err != nil || !strings.Contains(out.String(), "service relay says that its tools call others; services.relay.calls of the policy file does not grant it") ||
		!strings.Contains(out.String(), "calls of tool relay take up to 1m0s; services.relay.timeout of the policy file does not grant it, so they are ended after 30s") {
		t.Errorf("%s %v", out.String(), err)
	}
	g.put(everybody + `services: {svc: {offers: ["*"]}, relay: {offers: [tools/relay], calls: [tools/safe]}}`)
	bustest.Eventually(t, "it calls what it is granted", calls("safe", `"safe"`))
	bustest.Eventually(t, "and nothing else", calls("echo", "service relay may not call tool echo: services.relay.calls of the policy file does not grant it"))
	if code, body := g.ask(0, "ada", http.MethodPost, "/tools/echo", `{}`); code != http.StatusOK {
		t.Errorf("whoever may call it still does: %d %s", code, body)
	}
	// The command prints a file that grants everything that the bus has now.
	out.Reset()
	grants := edge.ListGrants{}
	grants.NATS = w.Bus
	if err := grants.Run(t.Context(), &out); err != nil || !strings.Contains(out.String(), "\n  relay:\n    offers:\n      - \"tools/relay\"\n    calls:\n      - \"tools/*\"\n    read_only: []\n    timeout: 1m0s\n") {
		t.Fatalf("%s %v", out.String(), err)
	}
	g.put(everybody + out.String())
	bustest.Eventually(t, "everything is granted", func() bool {
		_, one := get(t, g.doors[0], "/readyz")
		_, two := get(t, g.doors[1], "/readyz")
		return calls("safe", `"safe"`)() && !strings.Contains(one+two, "not granted to services") && !strings.Contains(one+two, "cannot be used")
	})
}
