package bus_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/task"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
)

const (
	working   = busv1.TaskStatus_TASK_STATUS_WORKING
	asking    = busv1.TaskStatus_TASK_STATUS_INPUT_REQUIRED
	completed = busv1.TaskStatus_TASK_STATUS_COMPLETED
	failed    = busv1.TaskStatus_TASK_STATUS_FAILED
	cancelled = busv1.TaskStatus_TASK_STATUS_CANCELLED
)

// openTasks opens the tasks through a connection of their own, as an edge does.
func openTasks(t *testing.T, url string) *task.Store {
	t.Helper()
	return task.Open(bustest.Connect(t, url))
}

// worker runs tasks of service "svc".
func worker(t *testing.T, url string, h task.Handler) (*bus.Server, *bus.Conn) {
	t.Helper()
	s, conn := serve(t, url, bus.ServerConfig{Service: "svc", Handler: echo})
	task.Serve(s, h)
	return s, conn
}

// begin makes a task of service "svc".
func begin(t *testing.T, tasks *task.Store, name string) string {
	t.Helper()
	return beginAs(t, tasks, name, &busv1.Task{})
}

func beginAs(t *testing.T, tasks *task.Store, name string, as *busv1.Task) string {
	t.Helper()
	rec, err := tasks.Create(t.Context(), "svc", &busv1.Request{
		Id: "call", Method: "tools/call", Name: name, Arguments: []byte(`{"a":1}`), DeadlineUnixNano: 1, LogLevel: 1,
		InputResponses: []byte(`{"old":{}}`), Identity: &busv1.Identity{Principal: "ada", Tenant: "t"},
	}, as)
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	return rec.Request.Id
}

// becomes waits until a task has a status.
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

func done(context.Context, *busv1.Request, func(string)) (proto.Message, error) {
	return &busv1.Result{Json: []byte(`{"done":true}`)}, nil
}

func TestTaskRuns(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	tasks := openTasks(t, url)
	id := beginAs(t, tasks, "x", &busv1.Task{RequestState: []byte("state"), TimeoutMs: 60_000})
	before, err := tasks.Get(t.Context(), id)
	if err != nil || before.Status != working || before.TtlMs != 3_660_000 || before.PollIntervalMs == 0 {
		t.Fatalf("as created: %v, %v", before, err)
	}
	got := make(chan *busv1.Request, 1)
	start := time.Now()
	worker(t, url, func(_ context.Context, req *busv1.Request, _ func(string)) (proto.Message, error) {
		got <- req
		return &busv1.Result{Json: []byte(`{"done":true}`), Meta: []byte(`{"m":1}`)}, nil
	})
	req := await(t, "the task runs", got)
	if left := time.Until(time.Unix(0, int64(req.DeadlineUnixNano))); left > time.Minute || left < 50*time.Second-time.Since(start) {
		t.Errorf("%v left for the run", left)
	}
	req.DeadlineUnixNano = 0
	want := &busv1.Request{
		Id: id, Method: "tools/call", Name: "x", Arguments: []byte(`{"a":1}`), WantsProgress: true,
		RequestState: []byte("state"), Identity: &busv1.Identity{Principal: "ada", Tenant: "t"},
	}
	if !proto.Equal(req, want) {
		t.Errorf("handler got %v\nwant %v", req, want)
	}
	rec := becomes(t, tasks, id, completed)
	if string(rec.Result.GetJson()) != `{"done":true}` || string(rec.Result.GetMeta()) != `{"m":1}` || rec.Error != nil {
		t.Errorf("completed with %v", rec)
	}
	if rec.Request.Arguments != nil || rec.Request.RequestState != nil || rec.Request.Identity.GetPrincipal() != "ada" || rec.Request.Name != "x" {
		t.Errorf("what is kept of the request: %v", rec.Request)
	}
	drained(t, url)
}

// drained requires that the queue has no runs left.
func drained(t *testing.T, url string) {
	t.Helper()
	js := rawJetStream(t, url)
	bustest.Eventually(t, "the queue is empty", func() bool {
		s, err := js.Stream(t.Context(), "TASKS")
		return err == nil && s.CachedInfo().State.Msgs == 0
	})
}

func TestTaskIDs(t *testing.T) {
	t.Parallel()
	tasks := openTasks(t, bustest.Server(t))
	id := begin(t, tasks, "x")
	service, token, _ := strings.Cut(id, ".")
	if service != "svc" || len(token) != 26 || begin(t, tasks, "x") == id {
		t.Errorf("id %q", id)
	}
	long := strings.Repeat("A", 5000)
	for _, wrong := range []string{"", ".", token, "svc.", "svc." + strings.ToLower(token), "svc." + token + ".", "svc.>", "*." + token, "other." + token, "." + token,
		"svc." + long, long + "." + token, "edge." + token, "svc.AAAAAAAAAAAAAAAAAAAAAAAAAA", "svc " + token, id + "\r\nPUB"} {
		if _, err := tasks.Get(t.Context(), wrong); !errors.Is(err, bus.ErrNoKey) {
			t.Errorf("get %.40q: %v", wrong, err)
		}
		if err := tasks.Answer(t.Context(), wrong, []byte(`{}`)); !errors.Is(err, bus.ErrNoKey) {
			t.Errorf("answer %.40q: %v", wrong, err)
		}
		if err := tasks.Cancel(t.Context(), wrong); !errors.Is(err, bus.ErrNoKey) {
			t.Errorf("cancel %.40q: %v", wrong, err)
		}
		stop, err := tasks.OnWrite(wrong, func() {})
		if err != nil {
			t.Errorf("follow %.40q: %v", wrong, err)
		}
		stop()
	}
	if _, err := tasks.Get(t.Context(), id); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func TestTaskOutcomes(t *testing.T) {
	t.Parallel()
	const odd = "\t{ \"a\" : 1.50e+01,\n\"b\":\"\\u00e4ä\"} "
	url := bustest.Server(t)
	tasks := openTasks(t, url)
	worker(t, url, func(ctx context.Context, req *busv1.Request, _ func(string)) (proto.Message, error) {
		switch req.Name {
		case "tool's own failure":
			return &busv1.Result{Json: []byte(`{}`), IsError: true}, nil
		case "fault":
			return nil, fault.New(fault.Conflict, "no: \xff").With([]byte(`{"d":1}`)).Ran(fault.Yes)
		case "error":
			return nil, errors.New("secret")
		case "panic":
			panic("secret")
		case "slow", "deaf":
			if req.Name == "slow" {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			<-t.Context().Done()
		case "large":
			return &busv1.Result{Json: []byte(`"` + strings.Repeat("x", 1<<20) + `"`)}, nil
		case "wrong type":
			return &busv1.Cancel{}, nil
		case "odd":
			return &busv1.Result{Json: []byte(odd)}, nil
		case "malformed":
			return &busv1.Result{Json: []byte("{\"a\":\"\xff\"}")}, nil
		}
		return nil, nil
	})
	for name, want := range map[string]fault.Error{
		"fault":      {Reason: fault.Conflict, Executed: fault.Yes, Message: "no: \uFFFD", Data: []byte(`{"d":1}`)},
		"error":      {Reason: fault.Internal, Executed: fault.Unknown},
		"panic":      {Reason: fault.Internal, Executed: fault.Unknown},
		"slow":       {Reason: fault.DeadlineExceeded, Executed: fault.Unknown},
		"deaf":       {Reason: fault.DeadlineExceeded, Executed: fault.Unknown},
		"large":      {Reason: fault.ResultTooLarge, Executed: fault.Yes},
		"nothing":    {Reason: fault.Internal, Executed: fault.Unknown},
		"wrong type": {Reason: fault.Internal, Executed: fault.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			as := &busv1.Task{}
			if name == "slow" || name == "deaf" {
				as.TimeoutMs = 100
			}
			id := beginAs(t, tasks, name, as)
			rec := becomes(t, tasks, id, failed)
			f := task.Error(rec)
			if f.Reason != want.Reason || f.Executed != want.Executed || want.Message != "" && f.Message != want.Message || string(f.Data) != string(want.Data) {
				t.Errorf("got %s, %s, %q, %s", f.Reason, f.Executed, f.Message, f.Data)
			}
			if rec.StatusMessage == "" || strings.Contains(f.Message+rec.StatusMessage, "secret") || rec.Result != nil {
				t.Errorf("record %v", rec)
			}
		})
	}
	t.Run("a tool's own failure is a result", func(t *testing.T) {
		t.Parallel()
		if rec := becomes(t, tasks, begin(t, tasks, "tool's own failure"), completed); !rec.Result.GetIsError() {
			t.Errorf("record %v", rec)
		}
	})
	t.Run("bytes are stored as they are", func(t *testing.T) {
		t.Parallel()
		if rec := becomes(t, tasks, begin(t, tasks, "odd"), completed); string(rec.Result.GetJson()) != odd {
			t.Errorf("record %v", rec)
		}
	})
	t.Run("M9 malformed ones stay there", func(t *testing.T) {
		t.Parallel()
		id := begin(t, tasks, "malformed")
		bustest.Eventually(t, "the task cannot be read any more", func() bool {
			_, err := tasks.Get(t.Context(), id)
			return fault.Is(err, fault.Internal)
		})
	})
}

func TestTaskSaysHowFarItIs(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	tasks := openTasks(t, url)
	release := make(chan struct{})
	var written recorder[string]
	worker(t, url, func(_ context.Context, _ *busv1.Request, say func(string)) (proto.Message, error) {
		for n := range 1000 {
			say(fmt.Sprintf("half \xff way, %d", n))
		}
		<-release
		return &busv1.Result{Json: []byte(`{}`)}, nil
	})
	id := begin(t, tasks, "x")
	stop, err := bustest.Join(t, url).Bucket(bus.TasksBucket).OnValue(id, func(_ string, value []byte) { written.add(string(value)) })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	bustest.Eventually(t, "the status message is there", func() bool {
		rec, err := tasks.Get(t.Context(), id)
		return err == nil && rec.Status == working && rec.StatusMessage == "half \uFFFD way, 999"
	})
	close(release)
	becomes(t, tasks, id, completed)
	// A write whose answer is late is repeated with the same value.
	all := written.all()
	slices.Sort(all)
	if n := len(slices.Compact(all)); n > 10 {
		t.Errorf("%d writes", n)
	}
}

// An instance that starts before the first edge takes tasks once the edge has created the queue.
func TestTaskWorkerWaitsForTheQueue(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	conn, err := bus.Connect(t.Context(), bus.Config{URL: url, Logger: bustest.Logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	s, err := bus.Serve(t.Context(), conn, bus.ServerConfig{Service: "svc", Handler: echo})
	if err != nil {
		t.Fatal(err)
	}
	task.Serve(s, done)
	t.Cleanup(func() { _ = s.Drain(context.Background()) })
	tasks := openTasks(t, url)
	becomes(t, tasks, begin(t, tasks, "x"), completed)
}

// A call that cannot be queued does not become a task, and nothing ran.
func TestTaskNeedsTheQueue(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	tasks := openTasks(t, url)
	js := rawJetStream(t, url)
	if err := js.DeleteStream(t.Context(), "TASKS"); err != nil {
		t.Fatal(err)
	}
	_, err := tasks.Create(t.Context(), "svc", toolCall(`{}`), &busv1.Task{})
	fails(t, err, fault.Unavailable, fault.No)
	kv, err := js.KeyValue(t.Context(), bus.TasksBucket)
	if err != nil {
		t.Fatal(err)
	}
	if keys, err := kv.Keys(t.Context()); err == nil {
		t.Errorf("left behind: %v", keys)
	}
	_, err = tasks.Create(t.Context(), "svc", toolCall(`"`+strings.Repeat("x", 1<<20)+`"`), &busv1.Task{})
	fails(t, err, fault.TooLarge, fault.No)
}

func TestTaskCancel(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	tasks := openTasks(t, url)
	started, ended := make(chan struct{}, 1), make(chan struct{}, 1)
	worker(t, url, func(ctx context.Context, req *busv1.Request, _ func(string)) (proto.Message, error) {
		if req.Name != "holds" {
			return done(ctx, req, nil)
		}
		started <- struct{}{}
		<-ctx.Done()
		ended <- struct{}{}
		return &busv1.Result{Json: []byte(`{}`)}, nil // too late
	})
	// A running task checks its record after a second. On a busy machine, at least one of several
	// is told before that.
	const soon = 700 * time.Millisecond
	id, took := "", time.Hour
	for n := 0; n < 5 && took > soon; n++ {
		id = begin(t, tasks, "holds")
		await(t, "the task runs", started)
		start := time.Now()
		if err := tasks.Cancel(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		await(t, "the handler is told", ended)
		took = min(took, time.Since(start))
	}
	if took > soon {
		t.Errorf("told after %v: by the next look, not at once", took)
	}
	drained(t, url)
	rec := becomes(t, tasks, id, cancelled)
	for range 2 {
		if err := tasks.Cancel(t.Context(), id); err != nil {
			t.Errorf("again: %v", err)
		}
	}
	if again := becomes(t, tasks, id, cancelled); !proto.Equal(again, rec) {
		t.Errorf("changed by cancelling again: %v", again)
	}
	over := begin(t, tasks, "x")
	becomes(t, tasks, over, completed)
	if err := tasks.Cancel(t.Context(), over); err != nil {
		t.Error(err)
	}
	becomes(t, tasks, over, completed)
}

// A cancellation whose message was lost is found by the next check.
func TestTaskCancelUnheard(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	tasks := openTasks(t, url)
	started, ended := make(chan struct{}, 1), make(chan struct{}, 1)
	worker(t, url, func(ctx context.Context, _ *busv1.Request, _ func(string)) (proto.Message, error) {
		started <- struct{}{}
		<-ctx.Done()
		ended <- struct{}{}
		return nil, ctx.Err()
	})
	id := begin(t, tasks, "x")
	await(t, "the task runs", started)
	rewrite(t, url, id, func(rec *busv1.TaskRecord) { rec.Status = cancelled })
	await(t, "the handler is told", ended)
	drained(t, url)
	becomes(t, tasks, id, cancelled)
}
