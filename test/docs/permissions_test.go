package docs

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	auditv1 "github.com/busbar-mcp/busbar/gen/busbar/audit/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/logs"
	"github.com/busbar-mcp/busbar/libs/bus/permission"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/audit"
	"github.com/busbar-mcp/busbar/services/edge"
	"github.com/busbar-mcp/busbar/services/edge/door"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/limit"
)

// permissions reads the lists of docs/reference/bus.md: what each heading lets a user publish and
// subscribe to.
func permissions(t *testing.T) map[string][2][]string {
	t.Helper()
	page, err := os.ReadFile("../../docs/reference/bus.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "## NATS permissions")
	section, _, _ = strings.Cut(section, "\n## ")
	subject := regexp.MustCompile("`([^`]+)`(?: \\(queue `([^`]+)`\\))?")
	users := map[string][2][]string{}
	for _, part := range strings.Split(section, "\n### ")[1:] {
		user, text, _ := strings.Cut(part, "\n")
		_, text, _ = strings.Cut(strings.Join(strings.Fields(text), " "), "**Publishes:**")
		publishes, subscribes, _ := strings.Cut(text, "**Subscribes:**")
		var row [2][]string
		for i, list := range []string{publishes, subscribes} {
			for _, m := range subject.FindAllStringSubmatch(list, -1) {
				one := m[1]
				if m[2] != "" {
					one += " " + m[2]
				}
				row[i] = append(row[i], one)
			}
		}
		users[user] = row
	}
	return users
}

// The lists have the permissions that programs are given.
func TestPermissionsLists(t *testing.T) {
	listed := permissions(t)
	own := regexp.MustCompile(`\bS\b`)
	row := func(begins, name string) (u permission.User) {
		for title, may := range listed {
			if strings.HasPrefix(title, begins) {
				u.Name = name
				for _, s := range may[0] {
					u.Publish = append(u.Publish, own.ReplaceAllString(s, name))
				}
				for _, s := range may[1] {
					u.Subscribe = append(u.Subscribe, own.ReplaceAllString(s, name))
				}
			}
		}
		if u.Name == "" {
			t.Fatalf("the page has no user %q", begins)
		}
		return u
	}
	same := func(title string, got, want permission.User) {
		if !slices.Equal(got.Publish, want.Publish) || !slices.Equal(got.Subscribe, want.Subscribe) {
			t.Errorf("%s: the page says\n%q\nand the program\n%q", title, got, want)
		}
	}
	same("edge", row("Edge", "edge"), permission.OfEdges())
	same("operator", row("Operator", "operator"), permission.OfOperators())
	plain := bustest.Of(t, "x")
	same("a service", row("Service `S`", "x"), plain)
	for _, p := range permission.Powers {
		got, want := row("With `"+string(p)+"`", "x"), bustest.Of(t, "x", p)
		got.Publish, got.Subscribe = append(slices.Clone(plain.Publish), got.Publish...), append(slices.Clone(plain.Subscribe), got.Subscribe...)
		same(string(p), got, want)
	}
	if want := 3 + len(permission.Powers); len(listed) != want {
		t.Errorf("the page has %d users, want %d", len(listed), want)
	}
}

// denials are the log lines that say that NATS denied something.
type denials struct {
	mu  sync.Mutex
	all []string
}

func (d *denials) Write(line []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if strings.Contains(strings.ToLower(string(line)), "permissions violation") {
		d.all = append(d.all, string(line))
	}
	return len(line), nil
}

// limits hold for every call.
type limits struct{}

func (limits) Limits(gateway.View) limit.Applied {
	return limit.Applied{Tool: limit.Limits{Rate: limit.Rate{Count: 1000, Per: time.Second}}}
}

// With the permissions that the page documents, and no others, everything starts
// and does its work.
func TestM17DocumentedPermissionsSuffice(t *testing.T) {
	fleet := bustest.NewFleet(t,
		bustest.Of(t, "plain"), bustest.Of(t, "worker", permission.Tasks),
		bustest.Of(t, "planner", permission.Calls, permission.Store, permission.Refresh), bustest.Of(t, "audit", permission.Audit, permission.Store),
	)
	denied := &denials{}
	logger := slog.New(slog.NewTextHandler(io.MultiWriter(denied, t.Output()), &slog.HandlerOptions{Level: slog.LevelWarn}))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	connect := func(name string) *bus.Conn {
		t.Helper()
		return fleet.Join(t, name, logger)
	}
	var edges []*edge.Edge
	for range 2 {
		e, err := edge.New(ctx, connect("edge"), edge.Config{Version: "1", Logger: logger, Limits: limits{}, Audit: edge.Audit{Token: "0perator"}})
		if err != nil {
			t.Fatalf("an edge does not start: %v", err)
		}
		t.Cleanup(e.Close)
		edges = append(edges, e)
	}
	echo := func(_ context.Context, _ *service.Call, in map[string]any) (string, error) { return "did it", nil }
	of := map[string]func(*service.Service){
		"plain": func(s *service.Service) {
			service.AddTool(s, service.Tool{Name: "read", ReadOnly: true}, echo)
			service.AddTool(s, service.Tool{Name: "write"}, echo)
			service.AddTool(s, service.Tool{Name: "ask", RequiresUserApproval: true}, echo)
		},
		"worker": func(s *service.Service) {
			service.AddTool(s, service.Tool{Name: "job", Task: service.TaskRequired}, echo)
		},
		"planner": func(s *service.Service) {
			service.AddTool(s, service.Tool{Name: "nested", CallsTools: true}, func(ctx context.Context, c *service.Call, _ map[string]any) (string, error) {
				r, err := c.CallTool(ctx, service.ToolCall{Name: "write"})
				if err != nil {
					return "", err
				}
				return r.Text(), nil
			})
		},
	}
	var planner *service.Service
	var refreshed atomic.Int32
	for name, add := range of {
		s := service.New(name, service.WithLogger(logger))
		add(s)
		if name == "planner" {
			s.SetStore("here")
			s.Refresh(time.Hour, func(context.Context) error { refreshed.Add(1); return nil })
			planner = s
		}
		r, err := s.Start(ctx, connect(name))
		if err != nil {
			t.Fatalf("service %s does not start: %v", name, err)
		}
		t.Cleanup(func() {
			if err := r.Stop(context.WithoutCancel(ctx)); err != nil {
				t.Error(err)
			}
		})
	}
	trail, err := audit.New(ctx, audit.Env{DataEnv: service.DataEnv{Env: service.Env{Log: logger}, DataDir: t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	keeper, err := trail.Start(ctx, connect("audit"))
	if err != nil {
		t.Fatalf("the audit service does not start: %v", err)
	}
	t.Cleanup(func() { _ = keeper.Stop(context.WithoutCancel(ctx)) })
	for i, e := range edges {
		if err := e.Await(ctx, "plain", "worker", "planner"); err != nil {
			t.Fatalf("edge %d: %v", i, err)
		}
		h := e.Handler(door.Guard{Loopback: true})
		once := func(method, path, body string, headers ...string) (int, string) {
			r := httptest.NewRequest(method, "http://127.0.0.1"+path, strings.NewReader(body))
			r.RemoteAddr = "127.0.0.1:1"
			r.Header.Set("Content-Type", "application/json")
			for i := 0; i < len(headers); i += 2 {
				r.Header.Set(headers[i], headers[i+1])
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r.WithContext(ctx))
			return w.Code, w.Body.String()
		}
		do := func(method, path, body string, headers ...string) (code int, answer string) {
			bustest.Eventually(t, "NATS is heard", func() bool {
				code, answer = once(method, path, body, headers...)
				return !bustest.StoodStill(answer)
			})
			return code, answer
		}
		for _, path := range []string{"/tools/read", "/tools/write", "/tools/nested"} {
			if code, body := do(http.MethodPost, path, "{}"); code != http.StatusOK || !strings.Contains(body, "did it") {
				t.Errorf("edge %d: %s: %d %s", i, path, code, body)
			}
		}
		for range 2 { // the second has the first one's answer
			if code, body := do(http.MethodPost, "/tools/write", "{}", "Idempotency-Key", fmt.Sprintf("key-%d", i)); code != http.StatusOK {
				t.Errorf("edge %d: with a key: %d %s", i, code, body)
			}
		}
		_, body := do(http.MethodPost, "/tools/ask", "{}")
		held := regexp.MustCompile(`"approval":"([A-Z0-9]+)"`).FindStringSubmatch(body)
		if held == nil {
			t.Fatalf("edge %d: nothing is held: %s", i, body)
		}
		if code, body := do(http.MethodPost, "/approvals/"+held[1], `{"approve":true}`); code != http.StatusOK {
			t.Errorf("edge %d: approved: %d %s", i, code, body)
		}
		meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},` +
			`"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`
		mcp := func(method, name, params string) string {
			_, body := do(http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{`+params+`,`+meta+`}}`,
				"Accept", "application/json, text/event-stream", "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", method, "Mcp-Name", name)
			return body
		}
		begun := regexp.MustCompile(`"taskId":"([^"]+)"`).FindStringSubmatch(mcp("tools/call", "job", `"name":"job","arguments":{}`))
		if begun == nil {
			t.Fatalf("edge %d: no task: %s", i, mcp("tools/call", "job", `"name":"job","arguments":{}`))
		}
		last := ""
		bustest.Eventually(t, "the task is completed", func() bool {
			last = mcp("tasks/get", begun[1], `"taskId":"`+begun[1]+`"`)
			return strings.Contains(last, `"completed"`)
		})
		if code, body := do(http.MethodGet, "/readyz", ""); code != http.StatusOK || !strings.HasPrefix(body, "ready\nbus: connected\n") {
			t.Errorf("edge %d: %d %s", i, code, body)
		}
		putAside, err := proto.Marshal(&auditv1.AuditEvent{Id: fmt.Sprint("ASIDE", i), Edge: "edge1", Outcome: "ok"})
		if err != nil {
			t.Fatal(err)
		}
		letter := nats.NewMsg("mcp.dlq.audit")
		letter.Data = putAside
		letter.Header.Set("Busbar-Subject", "mcp.audit.edge1")
		if _, err := connect("audit").JetStream().PublishMsg(ctx, letter); err != nil {
			t.Fatal(err)
		}
		if code, body := do(http.MethodPost, "/audit/redeliver", "", "Busbar-Audit", "0perator"); code != http.StatusOK || !strings.Contains(body, `"written":1`) {
			t.Errorf("edge %d: redeliver: %d %s", i, code, body)
		}
		bustest.Eventually(t, "the trail has what was done", func() bool {
			code, body := do(http.MethodGet, "/audit/list?limit=100", "", "Busbar-Audit", "0perator")
			return code == http.StatusOK && strings.Contains(body, `"nested"`) && strings.Contains(body, `"job"`)
		})
	}
	following, enough := context.WithCancel(ctx)
	defer enough()
	var here int
	err = logs.Follow(following, connect(permission.Operator), nil, logs.Filter{}, logs.Reader{
		Record: func(logs.Record) error { return nil },
		Missed: func(string, string, uint64) error { return nil },
		Here: func(instances, _, _ int) error {
			if here = instances; here >= len(of) {
				enough()
			}
			return nil
		},
	})
	if err != nil || here < len(of) {
		t.Errorf("an operator follows the logs of %d instances: %v", here, err)
	}
	before := refreshed.Load()
	planner.Changed()
	bustest.Eventually(t, "what is shared is read again", func() bool { return refreshed.Load() > before })
	denied.mu.Lock()
	defer denied.mu.Unlock()
	if len(denied.all) > 0 {
		t.Errorf("NATS denied\n%s", strings.Join(denied.all, ""))
	}
}
