package trail_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/auditlog"
	"github.com/busbar-mcp/busbar/libs/bus/edges"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/leaktest"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
	"github.com/busbar-mcp/busbar/services/edge/door"
	"github.com/busbar-mcp/busbar/services/edge/door/trail"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// recorder keeps the records.
type recorder struct{ records []gateway.Record }

func (r *recorder) Ready(gateway.View) error                  { return nil }
func (r *recorder) Begin(context.Context, gateway.View) error { return nil }
func (r *recorder) Record(_ context.Context, one gateway.Record) error {
	r.records = append(r.records, one)
	return nil
}

// somebody makes every request.
type somebody struct {
	gateway.Principal
	err error
}

func (s somebody) Authenticate(context.Context, gateway.Credentials) (gateway.Principal, error) {
	return s.Principal, s.err
}

// reading says whether the trail may be read.
type reading struct {
	gateway.Open
	reads bool
}

func (r reading) ReadsTrail(gateway.Principal) bool { return r.reads }

func TestReader(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	conn := bustest.Connect(t, url)
	caller, err := edges.NewCaller(conn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = caller.Close() })
	live, err := catalogue.Watch(t.Context(), conn, bustest.Logger(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(live.Close)
	var trails recorder
	recorded := gateway.New(gateway.Config{Caller: caller, Catalogue: live, Auditor: &trails, Logger: bustest.Logger(t)})
	other := gateway.New(gateway.Config{Caller: caller, Catalogue: live, Logger: bustest.Logger(t)})
	local := trail.New(trail.Config{Gateway: recorded, Guard: door.Guard{Loopback: true}, Token: "t0ken", Dead: auditlog.DeadOf(conn)})
	open := func(reads bool, p gateway.Principal, err error) *trail.Handler {
		g := gateway.New(gateway.Config{Caller: caller, Catalogue: live, Authenticator: somebody{p, err}, Access: reading{reads: reads}, Logger: bustest.Logger(t)})
		return trail.New(trail.Config{Gateway: g})
	}
	ada := gateway.Principal{Name: "ada", Tenant: "acme"}
	get := func(h http.Handler, target string, change func(*http.Request)) (int, string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
		r.Host, r.RemoteAddr = "127.0.0.1:8000", "127.0.0.1:5000"
		r.Header.Set(trail.Header, "t0ken")
		if change != nil {
			change(r)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	post := func(r *http.Request) { r.Method = http.MethodPost }
	if code, body := get(local, "/audit/list", nil); code != http.StatusServiceUnavailable || !strings.Contains(body, "no audit service") {
		t.Errorf("without a service: %d %s", code, body)
	}
	dead, err := conn.JetStream().CreateStream(t.Context(), auditlog.DeadStream)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := conn.JetStream().Publish(t.Context(), "mcp.dlq.audit", []byte("event")); err != nil {
			t.Fatal(err)
		}
	}
	var committed atomic.Pointer[string]
	answer := func(text string) { committed.Store(&text) }
	answer(`{"written":2,"committed":[1,3]}`)
	server, err := bus.Serve(t.Context(), bustest.Connect(t, url), bus.ServerConfig{Service: gateway.AuditService, Handler: func(_ context.Context, r *busv1.Request, _ *bus.Responder) (proto.Message, error) {
		if r.Method != bus.AuditQuery {
			return nil, fault.New(fault.MethodNotFound, "no")
		}
		if r.Name == "redeliver" {
			return &busv1.Result{Json: []byte(*committed.Load())}, nil
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
		handler *trail.Handler
		target  string
		change  func(*http.Request)
		want    int
	}{
		"another machine":         {local, "/audit/list", func(r *http.Request) { r.RemoteAddr = "192.0.2.1:5000" }, http.StatusForbidden},
		"a public listener":       {trail.New(trail.Config{Gateway: other}), "/audit/list", nil, http.StatusForbidden},
		"without the token":       {local, "/audit/list", func(r *http.Request) { r.Header.Set(trail.Header, "1") }, http.StatusForbidden},
		"where there is no token": {trail.New(trail.Config{Gateway: other, Guard: door.Guard{Loopback: true}}), "/audit/list", func(r *http.Request) { r.Header.Set(trail.Header, "") }, http.StatusForbidden},
		"a page":                  {local, "/audit/list", func(r *http.Request) { r.Header.Set("Origin", "http://localhost:3000") }, http.StatusForbidden},
		"a name that is rebound":  {local, "/audit/list", func(r *http.Request) { r.Host = "evil.example" }, http.StatusForbidden},
		"a tool that fetches":     {local, "/audit/list", func(r *http.Request) { r.Header.Del(trail.Header) }, http.StatusForbidden},
		"to redeliver by GET":     {local, "/audit/redeliver", nil, http.StatusMethodNotAllowed},
		"to list by POST":         {local, "/audit/list", post, http.StatusMethodNotAllowed},
		"the operator redelivers": {local, "/audit/redeliver?after=7", post, http.StatusOK},
		"a reader redelivers":     {open(true, ada, nil), "/audit/redeliver", func(r *http.Request) { post(r); r.Header.Del(trail.Header) }, http.StatusForbidden},
		"another method":          {local, "/audit/list", func(r *http.Request) { r.Method = http.MethodDelete }, http.StatusMethodNotAllowed},
		"another question":        {local, "/audit/drop", nil, http.StatusNotFound},
		"a parameter twice":       {local, "/audit/list?name=a&name=b", nil, http.StatusBadRequest},
		"text that is not UTF-8":  {local, "/audit/list?name=%ff", nil, http.StatusBadRequest},
		"nobody":                  {open(true, ada, fault.New(fault.Unauthenticated, "who?")), "/audit/list", nil, http.StatusUnauthorized},
		"who may not read it":     {open(false, ada, nil), "/audit/list", nil, http.StatusForbidden},
		"who may, from elsewhere": {open(true, ada, nil), "/audit/verify", func(r *http.Request) { r.RemoteAddr = "192.0.2.1:1" }, http.StatusOK},
		"another tenant's":        {open(true, ada, nil), "/audit/list?tenant=beta", nil, http.StatusForbidden},
	} {
		if code, body := get(c.handler, c.target, c.change); code != c.want {
			t.Errorf("%s: %d %s", name, code, body)
		}
	}
	for want, reader := range map[string]gateway.Principal{"acme": ada, "-": {Name: "bob"}} {
		for _, name := range []string{"list", "tail", "show", "verify"} {
			counts := ""
			if name == "list" {
				counts = `"others":"count",`
			}
			if code, body := get(open(true, reader, nil), "/audit/"+name, nil); code != http.StatusOK || body != `["`+name+`",{`+counts+`"tenant":"`+want+`"}]`+"\n" {
				t.Errorf("%d %s", code, body)
			}
		}
	}
	left := func() string {
		info, err := dead.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(info.State.Msgs, info.State.FirstSeq)
	}
	if got := left(); got != "1 2" {
		t.Errorf("after two of three events are written, messages and the first: %s; want the second alone", got)
	}
	again := trail.New(trail.Config{Gateway: other, Guard: door.Guard{Loopback: true}, Token: "t0ken", Dead: auditlog.DeadOf(conn)})
	for text, want := range map[string]int{
		`{"written":0,"known":2,"committed":[1,3]}`: http.StatusOK, // deleted by another command meanwhile
		`{"written":0}`: http.StatusOK,
		`{"committed":[2` + strings.Repeat(",2", 500) + `]}`: http.StatusServiceUnavailable,
		`{"committed":["2"]}`:                                http.StatusInternalServerError,
		`["2"]`:                                              http.StatusInternalServerError,
	} {
		answer(text)
		if code, body := get(again, "/audit/redeliver", post); code != want || left() != "1 2" {
			t.Errorf("%.40s: %d %s; left %s", text, code, body, left())
		}
	}
	full := gateway.New(gateway.Config{Caller: caller, Catalogue: live, Limiter: gateway.NewInFlight(0), Logger: bustest.Logger(t)})
	if code, body := get(trail.New(trail.Config{Gateway: full, Token: "t0ken"}), "/audit/list", nil); code != http.StatusServiceUnavailable || !strings.Contains(body, "overloaded") {
		t.Errorf("beyond the calls in flight: %d %s", code, body)
	}
	if _, err := other.Do(t.Context(), &gateway.Call{Method: gateway.AuditQuery, Name: "list"}, nil); !fault.Is(err, fault.MethodNotFound) {
		t.Errorf("through a door that knows no reader: %v", err)
	}
	// Both readers and refused readers are recorded.
	outcomes := map[string]int{}
	for _, r := range trails.records {
		outcomes[r.Outcome]++
		if c := r.View; c.Method != gateway.AuditQuery || c.ID == "" || r.Outcome == "ok" && (c.Principal.Name != "operator" || string(c.Arguments) != map[string]string{"list": `{"name":"a&b"}`, "redeliver": `{"after":"7"}`}[c.Name]) {
			t.Errorf("%+v", r.Call)
		}
	}
	if outcomes["ok"] != 2 || outcomes["forbidden"] != 4 || outcomes["unavailable"] != 1 {
		t.Errorf("%v", outcomes)
	}
}
