package servicetest

import (
	"context"
	"slices"
	"time"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus/task"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/service"
)

// Task is a call that continues after its request.
type Task struct {
	b             *Bus
	id            string
	tool, service string
	r             *Result
}

// Task calls a tool whose call has to become a task; anything else ends the
// test.
func (b *Bus) Task(tool string, args any) *Task {
	b.t.Helper()
	r := &Result{}
	frame, err := b.callTool(b.t.Context(), r, tool, args)
	if err != nil {
		b.t.Fatalf("servicetest: call %s: %v", tool, err)
	}
	begun := frame.GetTask()
	if begun == nil {
		b.t.Fatalf("servicetest: the call of %s ended at once: use Call", tool)
	}
	_, svc, err := b.tool(b.t.Context(), tool)
	if err != nil {
		b.t.Fatalf("servicetest: %v", err)
	}
	req := b.request("tools/call", tool)
	if req.Arguments, err = object(args); err != nil {
		b.t.Fatalf("servicetest: %v", err)
	}
	if req.Delegation, err = b.delegate(svc, 1); err != nil {
		b.t.Fatalf("servicetest: %v", err)
	}
	rec, err := b.shared.tasks.Create(b.t.Context(), svc, req, begun)
	if err != nil {
		b.t.Fatalf("servicetest: make the task: %v", err)
	}
	return &Task{b, rec.Request.Id, tool, svc, r}
}

// taskTime bounds how long Wait waits. An instance that is lost is noticed after
// 3 s.
const taskTime = 2 * time.Minute

// Wait answers what the task asks and returns how it ended.
func (t *Task) Wait() *Result {
	t.b.t.Helper()
	t.follow("did not end", func(ctx context.Context, rec *busv1.TaskRecord) bool {
		switch rec.Status {
		case busv1.TaskStatus_TASK_STATUS_COMPLETED:
			t.r.read(t.b, t.tool, rec.Result)
			return true
		case busv1.TaskStatus_TASK_STATUS_FAILED:
			t.r.Err = task.Error(rec)
			return true
		case busv1.TaskStatus_TASK_STATUS_CANCELLED:
			t.r.Err = fault.New(fault.Cancelled, "the task was cancelled")
			return true
		case busv1.TaskStatus_TASK_STATUS_INPUT_REQUIRED:
			answers, err := t.b.answer(t.r, rec.InputRequests)
			if err == nil {
				err = t.b.shared.tasks.Answer(ctx, t.id, answers)
			}
			if err != nil {
				t.b.t.Fatalf("servicetest: answer the task of %s: %v", t.tool, err)
			}
		}
		return false
	})
	return t.r
}

// follow reads each state of the task until done accepts one.
func (t *Task) follow(otherwise string, done func(context.Context, *busv1.TaskRecord) bool) {
	t.b.t.Helper()
	ctx, cancel := context.WithTimeout(t.b.t.Context(), taskTime)
	defer cancel()
	changed := make(chan struct{}, 1)
	stop, err := t.b.shared.tasks.OnWrite(t.id, func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	})
	if err != nil {
		t.b.t.Fatalf("servicetest: follow the task: %v", err)
	}
	defer stop()
	for {
		rec, err := t.b.shared.tasks.Get(ctx, t.id)
		if err != nil {
			t.b.t.Fatalf("servicetest: read the task of %s: %v", t.tool, err)
		}
		if done(ctx, rec) {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.b.t.Fatalf("servicetest: the task of %s %s in %v; its status is %v", t.tool, otherwise, taskTime, rec.Status)
		}
	}
}

// KillInstance waits until an instance runs the task, and ends that instance like a killed process:
// without a message. Another instance, which is started before, takes the task over after 3 s of
// silence.
func (t *Task) KillInstance() {
	t.b.t.Helper()
	var worker string
	t.follow("was taken by no instance", func(_ context.Context, rec *busv1.TaskRecord) bool {
		worker = rec.Worker
		return worker != ""
	})
	shared := t.b.shared
	shared.mu.Lock()
	all := shared.instances[t.service]
	i := slices.IndexFunc(all, func(one instance) bool { return one.Instance() == worker })
	if i < 0 {
		shared.mu.Unlock()
		t.b.t.Fatalf("servicetest: instance %s, which runs the task of %s, is not here any more", worker, t.tool)
	}
	killed := all[i]
	shared.instances[t.service] = slices.Delete(all, i, i+1)
	shared.mu.Unlock()
	ctx, cancel := context.WithTimeout(t.b.t.Context(), startTime)
	defer cancel()
	if err := t.b.add(ctx, killed.service); err != nil {
		t.b.t.Fatalf("servicetest: %v", err)
	}
	killed.conn.Close()
	_ = killed.Stop(stopped()) // its calls end, and nothing is sent
}

// ID is the id of the task, and of the call in each of its runs.
func (t *Task) ID() string { return t.id }

// Message is the task's latest status message.
func (t *Task) Message() string {
	t.b.t.Helper()
	rec, err := t.b.shared.tasks.Get(t.b.t.Context(), t.id)
	if err != nil {
		t.b.t.Fatalf("servicetest: read the task of %s: %v", t.tool, err)
	}
	return rec.StatusMessage
}

// Cancel cancels the task.
func (t *Task) Cancel() {
	t.b.t.Helper()
	if err := t.b.shared.tasks.Cancel(t.b.t.Context(), t.id); err != nil {
		t.b.t.Fatalf("servicetest: cancel the task of %s: %v", t.tool, err)
	}
}

// Replace stops every instance of a service at once, with its running calls, and starts another
// one.
func (b *Bus) Replace(s *service.Service) {
	b.t.Helper()
	b.shared.mu.Lock()
	old := b.shared.instances[s.Name()]
	b.shared.instances[s.Name()] = nil
	b.shared.mu.Unlock()
	for _, running := range old {
		_ = running.Stop(stopped())
	}
	ctx, cancel := context.WithTimeout(b.t.Context(), startTime)
	defer cancel()
	if err := b.add(ctx, s); err != nil {
		b.t.Fatalf("servicetest: %v", err)
	}
}
