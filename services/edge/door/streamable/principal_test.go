package streamable_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge"
	"github.com/busbar-mcp/busbar/services/edge/door"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

// byToken takes a token as the name of its bearer.
type byToken struct{}

func (byToken) Authenticate(_ context.Context, c gateway.Credentials) (gateway.Principal, error) {
	if c.Bearer == "" {
		return gateway.Principal{}, fault.New(fault.Unauthenticated, "no token")
	}
	tenant, name, _ := strings.Cut(c.Bearer, "/")
	return gateway.Principal{Name: name, Tenant: tenant}, nil
}

// TestSessionIsItsPrincipals serves a session only to the principal that opened it,
// whatever others know of it.
func TestSessionIsItsPrincipals(t *testing.T) {
	t.Parallel()
	w := &world{bus: bustest.Server(t), svc: edgetest.New("svc")}
	w.svc.Start(t, bustest.Connect(t, w.bus))
	ctx, cancel := context.WithTimeout(t.Context(), bustest.Patience)
	defer cancel()
	e, err := edge.New(ctx, bustest.Connect(t, w.bus), edge.Config{Version: "1", Authenticator: byToken{}, Logger: bustest.Logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	if err := e.Await(ctx, "svc"); err != nil {
		t.Fatal(err)
	}
	w.http = httptest.NewServer(e.Handler(door.Guard{Loopback: true}))
	t.Cleanup(w.http.Close)
	w.client = w.http.Client()

	w.post(t, header{}, edgetest.Initialize(mcp.V20251125)).refused(t, http.StatusUnauthorized, mcp.CodeUnauthenticated, "unauthenticated")
	ada := header{"Authorization": "Bearer t/ada"}
	opened := w.post(t, ada, edgetest.Initialize(mcp.V20251125))
	session := header{mcp.HeaderSessionID: opened.Header.Get(mcp.HeaderSessionID), mcp.HeaderProtocolVersion: mcp.V20251125}
	// JSON only: on a slow machine, an answer may go out as events.
	if r := w.post(t, merge(merge(session, ada), header{"Accept": "application/json"}), edgetest.LegacyCall("1", "safe", `{}`)); r.message(t).Text() != "safe" {
		t.Fatalf("its own: %s", r.body)
	}
	w.svc.Step <- struct{}{}
	body := edgetest.Legacy("7", mcp.MethodToolsCall, `"name":"steps","arguments":{},"_meta":{"progressToken":"p"}`)
	s := w.open(t, w.request(t.Context(), t, w.http.URL, merge(session, ada), strings.NewReader(body)))
	s.progress(1)
	for name, token := range map[string]string{"another principal": "Bearer t/bob", "another tenant": "Bearer u/ada", "the parts cut elsewhere": "Bearer t/a/da"} {
		h := merge(session, header{"Authorization": token})
		t.Run(name, func(t *testing.T) {
			w.post(t, h, edgetest.LegacyCall("1", "safe", `{}`)).refused(t, http.StatusNotFound, mcp.CodeInvalidRequest, "unknown_session")
			w.post(t, h, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`).refused(t, http.StatusNotFound, mcp.CodeInvalidRequest, "unknown_session")
			for _, method := range []string{http.MethodGet, http.MethodDelete} {
				r := w.request(t.Context(), t, w.http.URL, merge(h, header{"Last-Event-ID": s.id}), nil)
				r.Method = method
				w.do(t, r).refused(t, http.StatusNotFound, mcp.CodeInvalidRequest, "unknown_session")
			}
		})
	}
	w.svc.Release <- struct{}{}
	s.result("7", "released")
}
