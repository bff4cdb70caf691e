// Package access tests the edge as a resource server: which caller each credential stands for, at
// each door and in each version of the specification.
package access

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	rpc "google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

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
	log    *slog.Logger
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

func newWorld(t *testing.T) *world { return newWorldLogging(t, bustest.Logger(t)) }

func newWorldLogging(t *testing.T, log *slog.Logger) *world {
	t.Helper()
	w := &world{
		log:  log,
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
	ctx, cancel := context.WithTimeout(t.Context(), bustest.Patience)
	defer cancel()
	e, err := edge.New(ctx, bustest.Join(t, w.nats), edge.Config{Version: "1", Authenticator: w.auth, Access: w.policy, Logger: w.log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	if err := e.Await(ctx, "whoami"); err != nil {
		t.Fatal(err)
	}
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	l := &edge.Listeners{HTTP: listen(), GRPC: listen()}
	w.host, w.target = l.HTTP.Addr().String(), l.GRPC.Addr().String()
	serving, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.ServeAll(serving, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	conn, err := rpc.NewClient(w.target, rpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	w.grpc = gatewayv1.NewGatewayServiceClient(conn)
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
