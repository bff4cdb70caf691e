// Package access tests the edge as a resource server: which caller each credential stands for, at
// each door and in each version of the specification.
package access

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	gatewayv1 "github.com/busbar-mcp/busbar/gen/busbar/gateway/v1"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/leaktest"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/libs/service/servicetest"
	"github.com/busbar-mcp/busbar/services/edge"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/identity"
	"github.com/busbar-mcp/busbar/services/edge/identity/issuertest"
	"github.com/busbar-mcp/busbar/services/edge/identity/oauth"
	"github.com/busbar-mcp/busbar/services/edge/store"
	edges "github.com/busbar-mcp/busbar/test/world"
)

func TestMain(m *testing.M) {
	leaktest.Main(m)
}

// resource is the edge, as tokens name it.
const resource = "https://mcp.example/mcp"

// world is an edge with all doors but stdio, that takes tokens of three issuers.
type world struct {
	// main is strict; easy is lenient, asked about opaque tokens, and also takes
	// tokens for rootAudience; stranger is configured nowhere.
	main, easy, stranger *issuertest.Issuer

	nats   string
	host   string // of the HTTP doors
	grpc   gatewayv1.GatewayServiceClient
	target string // of gRPC
	client *http.Client
	keys   *store.APIKeys
	auth   *identity.Authenticator
	policy gateway.Access
}

const rootAudience = "https://root.example"

// settings returns the world's settings, without anonymous callers.
func (w *world) settings() identity.Settings {
	return identity.Settings{Issuers: []identity.Issuer{
		{
			Issuer:     oauth.Issuer{URL: w.main.URL, Audience: []string{resource}},
			ScopeRoles: map[string][]string{"mcp:call": {"caller"}}, First: []string{"mcp:call"},
		},
		{
			Issuer: oauth.Issuer{
				URL: w.easy.URL, Audience: []string{rootAudience, resource}, Lenient: true,
				Introspection: &oauth.Introspection{ClientID: issuertest.ClientID, Secret: issuertest.Secret},
			},
			Resource: resource,
		},
	}}
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		main: issuertest.New(t), easy: issuertest.New(t), stranger: issuertest.New(t),
		nats: bustest.Server(t), client: &http.Client{Transport: &http.Transport{}},
	}
	t.Cleanup(w.client.CloseIdleConnections)
	conn := bustest.Connect(t, w.nats)
	servicetest.Join(t, conn, whoami())
	w.keys = store.NewAPIKeys(conn)
	w.auth = identity.New()
	t.Cleanup(w.auth.Close)
	if err := w.auth.Configure(w.settings()); err != nil {
		t.Fatal(err)
	}
	w.serve(t)
	return w
}

// whoami is a service whose tool says who calls it.
func whoami() *service.Service {
	s := service.New("whoami", service.WithVersion("1.0.0"))
	service.AddTool(s, service.Tool{Name: "whoami", ReadOnly: true, InputSchema: []byte(`{"type":"object"}`)},
		func(_ context.Context, c *service.Call, _ []byte) (*service.Result, error) {
			return &service.Result{Content: []mcp.Content{mcp.Text("you are " + c.Tenant() + "/" + c.Principal() + ".")}}, nil
		})
	return s
}

func (w *world) serve(t *testing.T) {
	t.Helper()
	e := edges.Serve(t, w.nats, edge.Config{Authenticator: w.auth, Access: w.policy}, []string{"whoami"})
	w.host, w.target, w.grpc = e.Host, e.Target, e.Gateway
}

// key makes an API key of anna.
func (w *world) key(t *testing.T, name string, expires time.Time) string {
	t.Helper()
	key, err := w.keys.Create(t.Context(), name, "anna", expires)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// The one challenge of each outcome.
var (
	where = fmt.Sprintf("resource_metadata=%q", "https://mcp.example/.well-known/oauth-protected-resource/mcp")
	first = `scope="mcp:call"`
	algs  = `algs="RS256 PS256 ES256 EdDSA"`
)

// outcome is the verdict of an answer on credentials.
type outcome struct {
	name      string
	status    int
	challenge string
}

var (
	good    = outcome{"good", 200, ""}
	none    = outcome{"nothing shown", 401, "Bearer " + where + ", " + first}
	wrong   = outcome{"wrong", 401, `Bearer error="invalid_token", ` + where + ", " + first}
	several = outcome{"several", 400, `Bearer error="invalid_request", ` + where}
	twice   = outcome{"twice", 400, ""} // refused before it is looked at
	unproof = outcome{"no proof", 401, `DPoP error="invalid_dpop_proof", ` + algs}
	away    = outcome{"unavailable", 503, ""}
)
