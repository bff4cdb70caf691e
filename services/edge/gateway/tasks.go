package gateway

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/task"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
	"github.com/busbar-mcp/busbar/services/edge/quota"
)

// Tasks keeps the calls that go on as tasks. A task that does not exist is bus.ErrNoKey.
type Tasks interface {
	// CreateFor makes a task durable, under the credential that its caller showed, and makes it
	// run.
	CreateFor(ctx context.Context, credential, service string, req *busv1.Request, begun *busv1.Task) (*busv1.TaskRecord, error)
	Get(ctx context.Context, id string) (*busv1.TaskRecord, error)
	// Answer adds answers, a JSON object, to the open questions.
	Answer(ctx context.Context, id string, answers []byte) error
	// Cancel ends a task that is not over. End does so for a reason that people read, and reports
	// whether this call ended it.
	Cancel(ctx context.Context, id string) error
	End(ctx context.Context, id, why string) (bool, error)
	// Running visits the tasks that are not over.
	Running(ctx context.Context, f func(*busv1.TaskRecord)) error
}

// useTask answers the methods of tasks.
func (r *run) useTask(ctx context.Context, cfg *Config) (*Answer, error) {
	store := cfg.Tasks
	if store == nil {
		return nil, fault.New(fault.MethodNotFound, "this edge keeps no tasks")
	}
	rec, err := store.Get(ctx, r.Name)
	// The task of another principal is as unknown as one that never existed.
	if of := rec.GetRequest().GetIdentity(); err == nil && (of.GetPrincipal() != r.Principal.Name || of.GetTenant() != r.Principal.Tenant) { // fault:task-unknown
		err = bus.ErrNoKey
	}
	// A principal that may no longer use the tool of a task may end the task, and nothing else.
	if err == nil && r.Method != mcp.MethodTasksCancel && !mayUse(cfg.Access, r.Principal, rec) {
		err = bus.ErrNoKey
	}
	answer := &Answer{Result: &busv1.Result{Json: []byte("{}")}}
	switch {
	case err != nil:
	case r.Method == mcp.MethodTasksUpdate:
		if err = checkAnswers(rec.InputRequests, r.InputResponses); err == nil {
			err = store.Answer(ctx, r.Name, r.InputResponses)
		}
	case r.Method == mcp.MethodTasksCancel:
		err = store.Cancel(ctx, r.Name)
	default:
		answer = &Answer{Task: rec}
	}
	if errors.Is(err, bus.ErrNoKey) {
		err = unknownTask()
	}
	if err != nil {
		return nil, err
	}
	return answer, nil
}

// mayUse reports whether the policy still allows a principal to use the tool of a task.
// Conditions were checked when the task began.
func mayUse(a Access, who Principal, rec *busv1.TaskRecord) bool {
	view, call := a.View(who), rec.GetRequest()
	service, _, _ := strings.Cut(call.GetId(), ".")
	return view == nil || call.GetMethod() != mcp.MethodToolsCall || view.Sees(catalogue.Tools, call.GetName(), service)
}

// checkAnswers requires that answers to open questions match them: a wrong answer would end the
// task, which may not ask under the same key again. Other answers are ignored (extension tasks,
// Task Update Requests).
func checkAnswers(questions, answers []byte) error {
	if len(questions) == 0 {
		return nil
	}
	var given map[string]jsontext.Value
	if err := json.Unmarshal(answers, &given); err != nil {
		return fault.New(fault.InvalidParams, "params.inputResponses must be an object").Because(err)
	}
	return matching("params.inputResponses.", questions, given, false)
}

func unknownTask() error {
	return fault.New(fault.UnknownTask, "no such task, or it has expired")
}

// maxTasksOfAccount and maxTaskBytes bound the tasks that one account begins through one edge and
// that are kept for taskLife. Each counts maxTaskResult bytes for its result.
const (
	//limit:party tasks in 2 h | `rate_limited`
	maxTasksOfAccount = 1000
	//limit:party bytes of tasks in 2 h | `rate_limited`
	maxTaskBytes  = 64 << 20
	maxTaskResult = 32 << 10
	taskLife      = task.Timeout + task.Margin
)

// createTask makes the task that a service turns a call into.
func (r *run) createTask(ctx context.Context, store Tasks, limit *quota.Quota, req *busv1.Request, begun *busv1.Task) (*Answer, error) {
	switch {
	case store == nil:
		return nil, fault.New(fault.Internal, "the service began a task, and this edge keeps none")
	case !mcp.Declares(r.Client.GetCapabilities(), mcp.ExtensionTasks):
		return nil, NeedsTasks("this call ends as a task")
	}
	// A service runs as long as it is allowed to, whatever it says.
	if most := r.Target.Tool; most != nil && most.TaskTimeout > 0 {
		begun.TimeoutMs = min(cmp.Or(begun.TimeoutMs, uint64(task.Timeout.Milliseconds())), uint64(most.TaskTimeout.Milliseconds()))
	}
	if _, err := limit.Keep(r.Account, r.ID, len(r.Arguments)+maxTaskResult, taskLife); err != nil {
		return nil, err
	}
	rec, err := store.CreateFor(ctx, r.Principal.Credential, r.Target.Service, req, begun)
	if err != nil {
		limit.Release(r.Account, r.ID)
		return nil, err
	}
	return &Answer{Task: rec}, nil
}

// NeedsTasks refuses a client that does not take tasks.
func NeedsTasks(what string) error {
	return fault.New(fault.MissingCapability, "%s; it needs a client that declares the extension %s", what, mcp.ExtensionTasks).
		With(mcp.Needs(mcp.ExtensionTasks))
}
