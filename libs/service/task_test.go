package service_test

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus/task"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/service"
)

const takesTasks = `{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`

// from is a call of a tool by a client with these capabilities.
func from(caps, name string) *busv1.Request {
	req := tool(name, `{}`)
	req.Client = &busv1.Client{Capabilities: []byte(caps)}
	return req
}

// begin makes a call that must become a task, and creates the task as an edge does.
func (c *client) begin(req *busv1.Request) (*task.Store, string) {
	c.t.Helper()
	frame, err := c.do(req, nil)
	if err != nil || frame.GetTask() == nil {
		c.t.Fatalf("%s: %v, %v; want a task", req.Name, frame, err)
	}
	tasks := task.Open(c.conn)
	rec, err := tasks.Create(c.t.Context(), c.name, req, frame.GetTask())
	if err != nil {
		c.t.Fatal(err)
	}
	return tasks, rec.Request.Id
}

func becomes(t *testing.T, tasks *task.Store, id string, status busv1.TaskStatus) *busv1.TaskRecord {
	t.Helper()
	var rec *busv1.TaskRecord
	bustest.Eventually(t, "the task is "+status.String(), func() bool {
		var err error
		rec, err = tasks.Get(t.Context(), id)
		return err == nil && rec.Status == status
	})
	return rec
}

func TestTaskModes(t *testing.T) {
	t.Parallel()
	s := quiet(t, "svc")
	modes := map[string]service.TaskMode{"never": service.TaskNever, "optional": service.TaskOptional, "required": service.TaskRequired, "on demand": service.TaskOnDemand}
	for name, mode := range modes {
		service.AddTool(s, service.Tool{Name: strings.ReplaceAll(name, " ", "-"), Task: mode, Timeout: 3 * time.Second},
			func(context.Context, *service.Call, struct{}) (string, error) { return "done", nil })
	}
	service.AddTool(s, service.Tool{Name: "demands", Task: service.TaskOnDemand}, demands)
	service.AddTool(s, service.Tool{Name: "demands-wrongly"}, demands)
	c := run(t, s)
	const plain, task, refused, broken = "plain", "task", "refused", "broken"
	for name, want := range map[string]struct{ with, without string }{
		"never": {plain, plain}, "optional": {task, plain}, "required": {task, refused}, "on-demand": {plain, plain},
		"demands": {task, plain}, "demands-wrongly": {broken, broken},
	} {
		for caps, want := range map[string]string{takesTasks: want.with, `{"elicitation":{}}`: want.without, ``: want.without, `{"extensions":{"io.modelcontextprotocol/tasks":null}}`: want.without} {
			frame, err := c.do(from(caps, name), nil)
			got := "nothing"
			switch {
			case err == nil && frame.GetResult() != nil:
				got = plain
			case err == nil && frame.GetTask() != nil:
				got = task
				if limit := frame.GetTask().TimeoutMs; name != "demands" && limit != 3000 {
					t.Errorf("%s: limit of %d ms", name, limit)
				}
			case fault.Is(err, fault.MissingCapability):
				got = refused
				if f := fault.From(err); f.Executed != fault.No || string(f.Data) != `{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}` {
					t.Errorf("%s: %s, %s", name, f.Executed, f.Data)
				}
			case fault.Is(err, fault.Internal):
				got = broken
			}
			if got != want {
				t.Errorf("%s, client %s: %s, want %s (%v)", name, caps, got, want, err)
			}
		}
	}
}

func demands(_ context.Context, call *service.Call, _ struct{}) (string, error) {
	if err := call.AsTask(); err != nil {
		return "", err
	}
	return "done", nil
}

var nameForm = map[string]any{"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}}, "required": []string{"name"}}

// A handler asks, becomes a task, and asks again in the task: its answers and its state are there
// in every run, and its id stays the same.
func TestTaskKeepsWhatItWasTold(t *testing.T) {
	t.Parallel()
	s := quiet(t, "svc")
	ids := make(chan string, 8)
	service.AddTool(s, service.Tool{Name: "x", Task: service.TaskOnDemand}, func(_ context.Context, call *service.Call, _ struct{}) (string, error) {
		var first, second struct {
			Name string `json:"name"`
		}
		answers, err := call.Ask(service.Elicit("first", "?", nameForm))
		if err != nil {
			return "", err
		}
		if call.State() == nil {
			call.SetState([]byte("kept"))
		}
		if err := call.AsTask(); err != nil {
			return "", err
		}
		ids <- call.ID()
		call.Log("error", "x", "nobody hears this")
		if _, err := answers.Elicited("first", &first); err != nil {
			return "", err
		}
		if answers, err = call.Ask(service.Elicit("second", "?", nameForm)); err != nil {
			return "", err
		}
		if _, err := answers.Elicited("second", &second); err != nil {
			return "", err
		}
		return first.Name + " " + second.Name + " " + string(call.State()), nil
	})
	c := run(t, s)
	frame, err := c.do(from(takesTasks, "x"), nil)
	c.asks(frame, err, `{"first":{"method":"elicitation/create","params":{"message":"?","mode":"form","requestedSchema":{"properties":{"name":{"type":"string"}},"required":["name"],"type":"object"}}}}`)
	req := from(takesTasks, "x")
	req.LogLevel = 1
	req.InputResponses = []byte(`{"first":{"action":"accept","content":{"name":"Ada"}}}`)
	tasks, id := c.begin(req)
	rec := becomes(t, tasks, id, busv1.TaskStatus_TASK_STATUS_INPUT_REQUIRED)
	if got := string(rec.InputRequests); !strings.HasPrefix(got, `{"second":{"method":"elicitation/create"`) {
		t.Errorf("asks %s", got)
	}
	if err := tasks.Answer(t.Context(), id, []byte(`{"second":{"action":"accept","content":{"name":"Lovelace"}}}`)); err != nil {
		t.Fatal(err)
	}
	rec = becomes(t, tasks, id, busv1.TaskStatus_TASK_STATUS_COMPLETED)
	same(t, "result", string(rec.Result.Json), `{"content":[{"type":"text","text":"Ada Lovelace kept"}]}`)
	for range 2 {
		if got := <-ids; got != id {
			t.Errorf("a run of %s is called %s", id, got)
		}
	}
}

func TestTaskProgress(t *testing.T) {
	t.Parallel()
	s := quiet(t, "svc")
	release := make(chan struct{})
	for name, report := range map[string]func(*service.Call){
		"words":  func(c *service.Call) { c.Progress(1, 3, "one of three") },
		"parts":  func(c *service.Call) { c.Progress(1, 3, "") },
		"number": func(c *service.Call) { c.Progress(1.5, 0, "") },
	} {
		service.AddTool(s, service.Tool{Name: name, Task: service.TaskRequired}, func(_ context.Context, call *service.Call, _ struct{}) (string, error) {
			report(call)
			<-release
			return "done", nil
		})
	}
	c := run(t, s)
	ids := map[string]string{}
	var tasks *task.Store
	for name, want := range map[string]string{"words": "one of three", "parts": "1 of 3", "number": "1.5"} {
		tasks, ids[name] = c.begin(from(takesTasks, name))
		bustest.Eventually(t, "the status message is "+want, func() bool {
			rec, err := tasks.Get(t.Context(), ids[name])
			return err == nil && rec.StatusMessage == want
		})
	}
	close(release)
	for _, id := range ids {
		becomes(t, tasks, id, busv1.TaskStatus_TASK_STATUS_COMPLETED)
	}
}

// A service begins to serve tasks with its first tool that creates tasks.
func TestTaskToolAddedWhileRunning(t *testing.T) {
	t.Parallel()
	s := quiet(t, "svc")
	c := run(t, s)
	service.AddTool(s, service.Tool{Name: "fails", Task: service.TaskRequired}, func(context.Context, *service.Call, struct{}) (string, error) {
		return "", service.Errorf("on purpose")
	})
	tasks, id := c.begin(from(takesTasks, "fails"))
	rec := becomes(t, tasks, id, busv1.TaskStatus_TASK_STATUS_COMPLETED)
	if !rec.Result.IsError || !strings.Contains(string(rec.Result.Json), "on purpose") {
		t.Errorf("record %v", rec)
	}
	// A task continues when its tool was removed, and its error says so.
	tasks, id = c.begin(from(takesTasks, "fails"))
	becomes(t, tasks, id, busv1.TaskStatus_TASK_STATUS_COMPLETED)
	s.RemoveTool("fails")
	rec, err := tasks.Create(t.Context(), "svc", from(takesTasks, "fails"), &busv1.Task{})
	if err != nil {
		t.Fatal(err)
	}
	if f := task.Error(becomes(t, tasks, rec.Request.Id, busv1.TaskStatus_TASK_STATUS_FAILED)); f.Reason != fault.UnknownTool {
		t.Errorf("failed as %v", f)
	}
}

// A handler that ends its goroutine, as t.Fatal does, fails its task at once.
func TestTaskEndedByGoexit(t *testing.T) {
	t.Parallel()
	s := quiet(t, "svc")
	service.AddTool(s, service.Tool{Name: "leaves", Task: service.TaskRequired}, func(context.Context, *service.Call, struct{}) (string, error) {
		runtime.Goexit()
		return "", nil
	})
	c := run(t, s)
	for range 3 {
		tasks, id := c.begin(from(takesTasks, "leaves"))
		if f := task.Error(becomes(t, tasks, id, busv1.TaskStatus_TASK_STATUS_FAILED)); f.Reason != fault.Internal || f.Executed != fault.Unknown {
			t.Errorf("failed as %v, executed %s", f, f.Executed)
		}
	}
}

func TestTaskTimeoutIsBounded(t *testing.T) {
	t.Parallel()
	s := quiet(t, "svc")
	service.AddTool(s, service.Tool{Name: "x", Task: service.TaskOptional, Timeout: task.MaxTimeout + 1},
		func(context.Context, *service.Call, struct{}) (string, error) { return "", nil })
	if _, err := s.Start(t.Context(), bustest.Connect(t, bustest.Server(t))); err == nil || !strings.Contains(err.Error(), "23h") {
		t.Errorf("started: %v", err)
	}
}
