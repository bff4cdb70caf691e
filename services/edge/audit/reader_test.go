package audit_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/audit"
	"github.com/busbar-mcp/busbar/services/edge/door"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

func TestReader(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	caller := bustest.Caller(t, bustest.Connect(t, url))
	var records []gateway.Record
	local := &audit.Reader{
		Caller: caller, Guard: door.Guard{Loopback: true}, Token: "t0ken",
		Record: func(_ context.Context, r gateway.Record) error { records = append(records, r); return nil },
	}
	open := func(a audit.Access, err error) *audit.Reader {
		return &audit.Reader{Caller: caller, Authorize: func(*http.Request) (audit.Access, error) { return a, err }}
	}
	ada := gateway.Principal{Name: "ada", Tenant: "acme"}
	get := func(h http.Handler, target string, change func(*http.Request)) (int, string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
		r.Host, r.RemoteAddr = "127.0.0.1:8000", "127.0.0.1:5000"
		r.Header.Set(audit.Header, "t0ken")
		if change != nil {
			change(r)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	if code, body := get(local, "/audit/list", nil); code != http.StatusServiceUnavailable || !strings.Contains(body, "no audit service") {
		t.Errorf("without a service: %d %s", code, body)
	}
	server, err := bus.Serve(t.Context(), bustest.Connect(t, url), bus.ServerConfig{Service: audit.Service, Handler: func(_ context.Context, r *busv1.Request, _ *bus.Responder) (proto.Message, error) {
		if r.Method != bus.AuditQuery {
			return nil, fault.New(fault.MethodNotFound, "no")
		}
		return &busv1.Result{Json: []byte(`["` + r.Name + `",` + string(r.Arguments) + `]`)}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Drain(context.Background()) })
	if code, body := get(local, "/audit/list?name=a%26b", nil); code != http.StatusOK || body != `["list",{"name":"a&b"}]`+"\n" {
		t.Errorf("%d %s", code, body)
	}
	for name, c := range map[string]struct {
		handler *audit.Reader
		target  string
		change  func(*http.Request)
		want    int
	}{
		"another machine":           {local, "/audit/list", func(r *http.Request) { r.RemoteAddr = "192.0.2.1:5000" }, http.StatusForbidden},
		"a public listener":         {&audit.Reader{Caller: caller}, "/audit/list", nil, http.StatusForbidden},
		"without the token":         {local, "/audit/list", func(r *http.Request) { r.Header.Set(audit.Header, "1") }, http.StatusForbidden},
		"where there is no token":   {&audit.Reader{Caller: caller, Guard: door.Guard{Loopback: true}}, "/audit/list", func(r *http.Request) { r.Header.Set(audit.Header, "") }, http.StatusForbidden},
		"a page":                    {local, "/audit/list", func(r *http.Request) { r.Header.Set("Origin", "http://localhost:3000") }, http.StatusForbidden},
		"a name that is rebound":    {local, "/audit/list", func(r *http.Request) { r.Host = "evil.example" }, http.StatusForbidden},
		"a tool that fetches":       {local, "/audit/list", func(r *http.Request) { r.Header.Del(audit.Header) }, http.StatusForbidden},
		"another method":            {local, "/audit/list", func(r *http.Request) { r.Method = http.MethodDelete }, http.StatusNotFound},
		"another question":          {local, "/audit/drop", nil, http.StatusNotFound},
		"a parameter twice":         {local, "/audit/list?name=a&name=b", nil, http.StatusBadRequest},
		"text that is not UTF-8":    {local, "/audit/list?name=%ff", nil, http.StatusBadRequest},
		"refused by the authorizer": {open(audit.Access{}, fault.New(fault.Unauthenticated, "who?")), "/audit/list", nil, http.StatusUnauthorized},
		"allowed by the authorizer": {open(audit.Access{All: true}, nil), "/audit/verify", func(r *http.Request) { r.RemoteAddr = "192.0.2.1:1" }, http.StatusOK},
		"another tenant's":          {open(audit.Access{Reader: ada}, nil), "/audit/list?tenant=beta", nil, http.StatusForbidden},
	} {
		if code, body := get(c.handler, c.target, c.change); code != c.want {
			t.Errorf("%s: %d %s", name, code, body)
		}
	}
	for want, reader := range map[string]gateway.Principal{"acme": ada, "-": {Name: "bob"}} {
		for _, name := range []string{"list", "show", "verify"} {
			if code, body := get(open(audit.Access{Reader: reader}, nil), "/audit/"+name, nil); code != http.StatusOK || body != `["`+name+`",{"tenant":"`+want+`"}]`+"\n" {
				t.Errorf("%d %s", code, body)
			}
		}
	}
	// Who reads is recorded, and who tried.
	outcomes := map[string]int{}
	for _, r := range records {
		outcomes[r.Outcome]++
		if c := r.View; c.Method != audit.Method || c.ID == "" || r.Outcome == "ok" && (c.Principal.Name != "operator" || c.Name != "list" || string(c.Arguments) != `{"name":"a&b"}`) {
			t.Errorf("%+v", r.Call)
		}
	}
	if outcomes["ok"] != 1 || outcomes["forbidden"] != 4 || outcomes["unavailable"] != 1 {
		t.Errorf("%v", outcomes)
	}
}
