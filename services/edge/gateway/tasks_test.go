package gateway_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus/task"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

func taking(c *gateway.Call) *gateway.Call {
	c.Client = &busv1.Client{Capabilities: []byte(`{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`)}
	return c
}

func taskCall(method, id, bearer string) *gateway.Call {
	return &gateway.Call{Door: "test", Method: method, Name: id, Credentials: gateway.Credentials{Bearer: bearer}, InputResponses: []byte(`{"one":{"action":"accept","content":{}},"two":{"action":"decline"}}`)}
}

// tenants makes the part of a token before the colon the tenant.
type tenants struct{ gateway.Authenticator }

func (tenants) Authenticate(_ context.Context, c gateway.Credentials) (gateway.Principal, error) {
	tenant, name, _ := strings.Cut(c.Bearer, ":")
	return gateway.Principal{Name: name, Tenant: tenant}, nil
}

// A task is its principal's within its tenant: to all others it is as unknown
// as one that never was.
func TestTaskIsItsOwners(t *testing.T) {
	t.Parallel()
	w := start(t, func(_ *world, cfg *gateway.Config) { cfg.Authenticator = tenants{} })
	c := taking(toolCall("ask-task", "{}"))
	c.Credentials.Bearer = "acme:ada"
	id := w.works(t, c).Task.Request.Id
	if r := w.last(t); r.Outcome != "task" {
		t.Errorf("audited %q", r.Outcome)
	}
	get := func() *busv1.TaskRecord { return w.works(t, taskCall(mcp.MethodTasksGet, id, "acme:ada")).Task }
	bustest.Eventually(t, "the task asks", func() bool { return get().Status == busv1.TaskStatus_TASK_STATUS_INPUT_REQUIRED })
	before := get()
	for _, who := range []string{"acme:bob", "other:ada", ":ada", "acme:", ""} {
		for _, method := range []string{mcp.MethodTasksGet, mcp.MethodTasksUpdate, mcp.MethodTasksCancel} {
			f := w.fails(t, taskCall(method, id, who), fault.UnknownTask, fault.No)
			never := w.fails(t, taskCall(method, "svc.AAAAAAAAAAAAAAAAAAAAAAAAAA", who), fault.UnknownTask, fault.No)
			if f.Message != never.Message || string(f.Data) != string(never.Data) {
				t.Errorf("%s by %s: %v; of no task: %v", method, who, f, never)
			}
		}
	}
	if after := get(); after.UpdatedUnixNano != before.UpdatedUnixNano {
		t.Errorf("changed by others to %v", after)
	}
	// An answer that does not fit its question changes nothing: the task cannot
	// ask again.
	for _, wrong := range []string{`{"one":{}}`, `{"one":{"action":"maybe"}}`, `{"two":{"action":"accept","content":{}},"one":7}`, `{"one":{"action":"accept","content":[]}}`} {
		c := taskCall(mcp.MethodTasksUpdate, id, "acme:ada")
		c.InputResponses = []byte(wrong)
		if f := w.fails(t, c, fault.InvalidParams, fault.No); !strings.Contains(f.Message, "params.inputResponses.one") {
			t.Errorf("%s: %v", wrong, f)
		}
	}
	if after := get(); after.UpdatedUnixNano != before.UpdatedUnixNano {
		t.Errorf("changed by wrong answers to %v", after)
	}
	w.works(t, taskCall(mcp.MethodTasksUpdate, id, "acme:ada"))
	bustest.Eventually(t, "the task is over", func() bool { return get().Status == busv1.TaskStatus_TASK_STATUS_COMPLETED })
}

// Requests about tasks pass every link but those that are about a service.
func TestTaskChain(t *testing.T) {
	t.Parallel()
	w := start(t, all)
	for method, want := range map[string]string{
		mcp.MethodTasksGet:    "authenticate limit authorize release audit",
		mcp.MethodTasksUpdate: "authenticate limit authorize begin release audit",
		mcp.MethodTasksCancel: "authenticate limit authorize begin release audit",
	} {
		w.asked = nil
		w.fails(t, taskCall(method, "x", ""), fault.UnknownTask, fault.No)
		if got := strings.Join(w.asked, " "); got != want {
			t.Errorf("%s: asked %s", method, got)
		}
	}
}

// What a service says is not enough: the client must have said it too.
func TestTaskForWhoTakesNone(t *testing.T) {
	t.Parallel()
	without := start(t, func(_ *world, cfg *gateway.Config) { cfg.Tasks = nil })
	without.fails(t, taking(toolCall("later", "{}")), fault.Internal, fault.Unknown)
	without.fails(t, taskCall(mcp.MethodTasksGet, "x", ""), fault.MethodNotFound, fault.No)
	away := start(t, func(_ *world, cfg *gateway.Config) { cfg.Tasks = failing{cfg.Tasks} })
	away.fails(t, taking(toolCall("later", "{}")), fault.Unavailable, fault.No)
	away.fails(t, taskCall(mcp.MethodTasksGet, "x", ""), fault.Unavailable, fault.No)
}

// failing is a store that cannot be reached.
type failing struct{ gateway.Tasks }

func (failing) CreateFor(context.Context, string, string, *busv1.Request, *busv1.Task) (*busv1.TaskRecord, error) {
	return nil, fault.New(fault.Unavailable, "away")
}
func (failing) Get(context.Context, string) (*busv1.TaskRecord, error) {
	return nil, fault.New(fault.Unavailable, "away")
}

var _ gateway.Tasks = (*task.Store)(nil)

// hidden is an Access whose rules do not let anybody use a tool.
type hidden struct {
	gateway.Open
	tool atomic.Pointer[string]
}

func (h *hidden) View(gateway.Principal) catalogue.View {
	if h.tool.Load() == nil {
		return nil
	}
	return h
}

func (h *hidden) Key() string { return *h.tool.Load() }

func (h *hidden) Sees(_ catalogue.Kind, name, _ string) bool { return name != *h.tool.Load() }

// A task whose tool has been denied meanwhile tells its principal nothing, takes no
// answer, and may be ended.
func TestH8TaskOfADeniedTool(t *testing.T) {
	t.Parallel()
	rules := &hidden{}
	w := start(t, func(_ *world, cfg *gateway.Config) { cfg.Authenticator, cfg.Access = tenants{}, rules })
	c := taking(toolCall("ask-task", "{}"))
	c.Credentials.Bearer = "acme:ada"
	id := w.works(t, c).Task.Request.Id
	get := func() *busv1.TaskRecord { return w.works(t, taskCall(mcp.MethodTasksGet, id, "acme:ada")).Task }
	bustest.Eventually(t, "the task asks", func() bool { return get().Status == busv1.TaskStatus_TASK_STATUS_INPUT_REQUIRED })
	other := "hold-task"
	rules.tool.Store(&other)
	get() // another tool's denial changes nothing
	own := "ask-task"
	rules.tool.Store(&own)
	for _, method := range []string{mcp.MethodTasksGet, mcp.MethodTasksUpdate} {
		f := w.fails(t, taskCall(method, id, "acme:ada"), fault.UnknownTask, fault.No)
		never := w.fails(t, taskCall(method, "svc.AAAAAAAAAAAAAAAAAAAAAAAAAA", "acme:ada"), fault.UnknownTask, fault.No)
		if f.Message != never.Message || string(f.Data) != string(never.Data) {
			t.Errorf("%s: %v; of no task: %v", method, f, never)
		}
	}
	w.works(t, taskCall(mcp.MethodTasksCancel, id, "acme:ada"))
	rules.tool.Store(&other)
	bustest.Eventually(t, "it has ended", func() bool { return get().Status == busv1.TaskStatus_TASK_STATUS_CANCELLED })
}
