package edge_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	rpc "google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	rpcstatus "google.golang.org/grpc/status"

	gatewayv1 "github.com/busbar-mcp/busbar/gen/busbar/gateway/v1"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/services/edge"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/identity"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

// accounts records the accounts that calls count for.
type accounts struct {
	mu   sync.Mutex
	last string
}

func (p *accounts) Acquire(_ context.Context, v gateway.View) (func(), error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = v.Account
	return func() {}, nil
}

func (p *accounts) take() (last string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	last, p.last = p.last, ""
	return last
}

// behind serves an edge behind a proxy, and returns its addresses.
func behind(t *testing.T, f identity.ProxyFlags) (http, grpc string, counted *accounts) {
	t.Helper()
	w, counted := start(t), &accounts{}
	cfg := edge.Config{Version: "1", Logger: bustest.Logger(t), Limiter: counted}
	closed, err := (&edge.IdentityFlags{Proxy: f}).OpenIdentity(&cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(closed)
	e := w.Join(t, func(c *edge.Config) { *c = cfg })
	l := listening(t, e.Edge, edge.ListenFlags{Listen: "127.0.0.1:0", GRPCListen: "127.0.0.1:0"}, f.Header != "")
	return l.HTTP.Addr().String(), l.GRPC.Addr().String(), counted
}

// from connects from an address of this machine.
func from(ip string) *net.Dialer { return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}} }

const proxyIP, elsewhere = "127.0.0.2", "127.0.0.1"

// A principal named in the proxy's header counts only if the proxy sends it, at every
// door.
func TestProxyAtEveryDoor(t *testing.T) {
	t.Parallel()
	at, rpcAt, counted := behind(t, identity.ProxyFlags{Header: "X-Forwarded-User", From: []string{proxyIP}})
	for _, c := range []struct {
		from, user, authorization string
		status                    int
		code                      codes.Code
	}{
		{proxyIP, "anna", "", http.StatusOK, codes.OK},
		{proxyIP, "", "", http.StatusUnauthorized, codes.Unauthenticated},
		{elsewhere, "anna", "", http.StatusBadRequest, codes.InvalidArgument},
		{elsewhere, "", "", http.StatusUnauthorized, codes.Unauthenticated},
		{proxyIP, "anna", "Bearer x", http.StatusBadRequest, codes.InvalidArgument},
	} {
		transport := &http.Transport{DialContext: from(c.from).DialContext}
		t.Cleanup(transport.CloseIdleConnections)
		for _, r := range []struct{ method, path, body string }{
			{http.MethodPost, "/tools/echo", "{}"}, {http.MethodGet, "/tools", ""}, {http.MethodGet, "/resources", ""}, {http.MethodGet, "/prompts", ""}, {http.MethodGet, "/approvals", ""},
			{http.MethodPost, "/mcp", edgetest.Legacy("1", "ping", "")}, {http.MethodPost, "/v1", `{"id":"1","type":"request","method":"tool/list","parameters":{}}`}, {http.MethodPost, "/graphql", `{"query":"{tools{name}}"}`},
			{http.MethodGet, "/sse", ""}, {http.MethodGet, "/ws", ""},
		} {
			if c.status == http.StatusOK && (r.path == "/ws" || r.path == "/sse" || r.path == "/mcp" || r.path == "/v1" || r.path == "/graphql") {
				continue // a stream; another test covers these requests
			}
			req, err := http.NewRequestWithContext(t.Context(), r.method, "http://"+at+r.path, strings.NewReader(r.body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			if r.path == "/sse" {
				req.Header.Set("Accept", "text/event-stream")
			}
			if c.user != "" {
				req.Header.Set("X-Forwarded-User", c.user)
			}
			if c.authorization != "" {
				req.Header.Set("Authorization", c.authorization)
			}
			resp, err := transport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if resp.StatusCode != c.status {
				t.Errorf("%+v at %s: %d", c, r.path, resp.StatusCode)
			}
		}
		if got := counted.take(); (got == "0:anna") != (c.status == http.StatusOK) {
			t.Errorf("%+v is counted for %q", c, got)
		}
		conn, err := rpc.NewClient(rpcAt, rpc.WithTransportCredentials(insecure.NewCredentials()), rpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return from(c.from).DialContext(ctx, "tcp", address)
		}))
		if err != nil {
			t.Fatal(err)
		}
		ctx := t.Context()
		if c.user != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "x-forwarded-user", c.user)
		}
		if c.authorization != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "authorization", c.authorization)
		}
		_, err = gatewayv1.NewGatewayServiceClient(conn).ListTools(ctx, &gatewayv1.ListToolsRequest{})
		if got := rpcstatus.Code(err); got != c.code {
			t.Errorf("%+v over gRPC: %v", c, err)
		}
		_ = conn.Close()
		counted.take()
	}
}

// Anonymous clients behind a proxy have a share each. A client that is not behind it
// cannot claim to be another one.
func TestProxySaysWhereClientsAre(t *testing.T) {
	t.Parallel()
	at, _, counted := behind(t, identity.ProxyFlags{From: []string{proxyIP}})
	for _, c := range []struct{ from, said, account string }{
		{proxyIP, "203.0.113.9", "@203.0.113.9"}, {proxyIP, "", "@" + proxyIP}, {elsewhere, "203.0.113.9", "@" + elsewhere},
	} {
		transport := &http.Transport{DialContext: from(c.from).DialContext}
		t.Cleanup(transport.CloseIdleConnections)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+at+"/tools/echo", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		if c.said != "" {
			req.Header.Set("X-Forwarded-For", c.said)
		}
		resp, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if got := counted.take(); resp.StatusCode != http.StatusOK || got != c.account {
			t.Errorf("%+v: %d, counted for %q", c, resp.StatusCode, got)
		}
	}
}
