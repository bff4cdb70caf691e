package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/busbar/internal/terminal"
	"github.com/go-json-experiment/json/jsontext"
)

// CallOptions are the options of `busbar call`.
type CallOptions struct {
	Options
	// Name of the tool.
	Name string
	// Arguments are a JSON object, "@FILE", "-" for stdin, texts of the form name=value,
	// or nothing for {}.
	Arguments []string
	// Detach has the call go on as a task and does not wait for it.
	Detach bool
	// Once is an idempotency key: a call that is repeated with it has one effect. Empty for
	// none.
	Once string
	// Begun is the directory in which the ids of tasks are kept for RunTaskList; empty
	// for none.
	Begun string
}

// errDenied is the end of a call that the person said no to.
var errDenied = errors.New("denied")

// maxRounds bounds the questions of one call, which a person answers each.
const maxRounds = 100

// RunCall is `busbar call`: it calls one tool and returns the exit code. Where a
// person has to agree or is asked something, and there is one, it asks.
func RunCall(ctx context.Context, o CallOptions, stdin io.Reader, stdout, stderr io.Writer) int {
	r := newRun(o.Options, stdout, stderr)
	arguments, err := r.arguments(ctx, o, stdin)
	if err != nil {
		return r.fail(err, o.Name)
	}
	call := request{params: params{Name: o.Name, Arguments: arguments}, asks: o.asks(), tasks: o.Detach, onProgress: r.line.show, key: o.Once}
	res, err := r.callThrough(ctx, call, &person{run: r, in: stdin})
	if err == nil && res.Task != "" {
		r.remember(o.Begun, res.Task, o.Name)
	}
	switch {
	case errors.Is(err, errDenied):
		fmt.Fprintf(stderr, "denied: %s will not run\n", terminal.SafeLine(o.Name))
		return ExitRefused
	case err != nil:
		return r.fail(err, o.Name)
	case res.Task != "" && o.Detach:
		fmt.Fprintf(stderr, "it goes on as a task; see `busbar task get %s`\n", res.Task)
		return r.printTask(res, o.Options)
	case res.Task != "":
		return r.follow(ctx, res.Task, o.Options, &person{run: r, in: stdin})
	}
	if res.replayed() {
		fmt.Fprintln(stderr, "an earlier call with this key gave this answer; nothing ran now")
	}
	return r.show(res, o.Name, o.Options)
}

// arguments reads the arguments of a call. Only for the form name=value the tool's schema is
// needed, and so an edge.
func (r *run) arguments(ctx context.Context, o CallOptions, stdin io.Reader) (jsontext.Value, error) {
	ctx, stop := r.within(ctx)
	defer stop()
	if len(o.Arguments) == 0 {
		return checkArguments(nil)
	}
	if len(o.Arguments) == 1 && !assigns(o.Arguments[0]) {
		return readArgument(ctx, o.Arguments[0], stdin)
	}
	l, err := r.edge.listedOnce(ctx)
	if err != nil {
		return nil, err
	}
	t := l.find(o.Name)
	if t == nil {
		if t = r.edge.describe(ctx, l, o.Name); t == nil {
			return checkArguments(nil) // the edge says what is wrong with the name
		}
	}
	read := func(file string) ([]byte, error) { return readSource(ctx, file, stdin) }
	return assign(t.InputSchema, o.Arguments, read)
}

// callThrough calls until there is a result, with a person's answers to what the server
// asks in between. Time counts while the edge works, not while the person thinks.
func (r *run) callThrough(ctx context.Context, call request, who *person) (*Result, error) {
	for range maxRounds {
		calling, stop := r.within(ctx)
		res, err := r.edge.call(calling, call)
		stop()
		r.line.clear()
		if needsTask(err) && !call.tasks {
			call.tasks = true // nothing ran
			continue
		}
		var refused *RPCError
		if who.denied && errors.As(err, &refused) && refused.Reason == fault.Forbidden {
			return nil, errDenied
		}
		if err != nil || res.InputRequests == nil || !who.canAnswer(res.InputRequests) {
			return res, err
		}
		if call.params.InputResponses, err = who.answer(ctx, res.InputRequests); err != nil {
			return nil, err
		}
		call.params.RequestState = res.RequestState
	}
	return nil, &ProtocolError{Method: mcp.MethodToolsCall, Message: fmt.Sprintf("the tool asked %d times", maxRounds)}
}

// needsTask reports whether a call was refused because it has to be a task.
func needsTask(err error) bool {
	var e *RPCError
	if !errors.As(err, &e) || e.Reason != fault.MissingCapability || e.Executed != fault.No {
		return false
	}
	var needs struct {
		Capabilities jsontext.Value `json:"requiredCapabilities"`
	}
	return decode(e.Data, &needs) == nil && mcp.Declares(needs.Capabilities, mcp.ExtensionTasks)
}

// Task is a call that goes on without its request.
type Task struct {
	ID      string `json:"taskId"`
	Status  string `json:"status"`
	Message string `json:"statusMessage"`
	PollMS  int64  `json:"pollIntervalMs"`
	// Result is set when it is completed, Failure when it failed.
	Result  jsontext.Value `json:"result"`
	Failure jsontext.Value `json:"error"`
	// Raw is the task as received.
	Raw jsontext.Value `json:"-"`
}

func decodeTask(raw jsontext.Value) (*Task, error) {
	t := &Task{Raw: raw}
	if err := decode(raw, t); err != nil {
		return nil, &ProtocolError{Method: mcp.MethodTasksGet, Message: "the task is malformed", Err: err}
	}
	if t.ID == "" {
		return nil, &ProtocolError{Method: mcp.MethodTasksGet, Message: "the task has no id"}
	}
	return t, nil
}

// over reports whether a task will not change any more.
func (t *Task) over() bool {
	return slices.Contains([]string{"completed", "failed", "cancelled"}, t.Status)
}

// Bounds of the time between two looks at a task, whatever the server says.
const leastPoll, mostPoll = 100 * time.Millisecond, 10 * time.Second

// task asks for a task.
func (r *run) task(ctx context.Context, id string) (*Task, error) {
	ctx, stop := r.within(ctx)
	defer stop()
	raw, err := r.edge.do(ctx, request{method: mcp.MethodTasksGet, params: params{TaskID: id}, tasks: true})
	if err != nil {
		return nil, err
	}
	return decodeTask(raw)
}

// follow waits for the end of a task, answers what it asks, and shows its result.
func (r *run) follow(ctx context.Context, id string, o Options, who *person) int {
	for {
		t, err := r.task(ctx, id)
		if err != nil {
			return r.fail(err, "")
		}
		if t.over() {
			r.line.clear()
			return r.showTask(t, o)
		}
		if t.Status == typeInputRequired {
			if code, done := r.answerTask(ctx, t, who); done {
				return code
			}
			continue
		}
		stop := r.line.wait("task " + id + " is " + t.Status + " " + t.Message)
		select {
		case <-time.After(min(max(time.Duration(t.PollMS)*time.Millisecond, leastPoll), mostPoll)):
		case <-ctx.Done():
		}
		stop()
		if ctx.Err() != nil {
			fmt.Fprintf(r.stderr, "the task goes on; see `busbar task get %s`, or end it with `busbar task cancel %[1]s`\n", id)
			return r.fail(ctx.Err(), "")
		}
	}
}

// answerTask puts what a task asks to a person. done means that nobody answers.
func (r *run) answerTask(ctx context.Context, t *Task, who *person) (code int, done bool) {
	requests, err := decodeInputRequests(t.Raw)
	if err == nil && !who.canAnswer(requests) {
		fmt.Fprint(r.stderr, r.errStyle.Red("error: ")+questions(requests))
		return ExitRefused, true
	}
	p := params{TaskID: t.ID}
	if err == nil {
		p.InputResponses, err = who.answer(ctx, requests)
	}
	if err == nil {
		ctx, stop := r.within(ctx)
		defer stop()
		_, err = r.edge.do(ctx, request{method: mcp.MethodTasksUpdate, params: p, tasks: true})
	}
	if err != nil {
		return r.fail(err, ""), true
	}
	return ExitOK, false
}
