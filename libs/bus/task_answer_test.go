package bus_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/task"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
)

func rawJetStream(t *testing.T, url string) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(raw(t, url), jetstream.WithDefaultTimeout(bustest.Patience))
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// rewrite changes a task's record directly, without the store.
func rewrite(t *testing.T, url, id string, change func(*busv1.TaskRecord)) {
	t.Helper()
	kv, err := rawJetStream(t, url).KeyValue(t.Context(), bus.TasksBucket)
	if err != nil {
		t.Fatal(err)
	}
	entry, err := kv.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	rec := &busv1.TaskRecord{}
	if err := proto.Unmarshal(entry.Value(), rec); err != nil {
		t.Fatal(err)
	}
	change(rec)
	data, err := proto.Marshal(rec)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Update(t.Context(), id, data, entry.Revision()); err != nil {
		t.Fatal(err)
	}
}

// queue puts a run into the queue as an edge would.
func queue(t *testing.T, url, id string, run uint32, opts ...jetstream.PublishOpt) {
	t.Helper()
	data, err := proto.Marshal(&busv1.TaskRun{Id: id, Run: run})
	if err == nil {
		_, err = rawJetStream(t, url).Publish(t.Context(), "mcp.task.svc", data, opts...)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// asks is a handler that asks for a and b, and then returns the answers.
func asks(runs *atomic.Int32) task.Handler {
	return func(_ context.Context, req *busv1.Request, _ func(string)) (proto.Message, error) {
		runs.Add(1)
		if len(req.InputResponses) == 0 {
			return &busv1.InputRequired{InputRequests: []byte(`{"a":{"method":"m"},"b":{"method":"n"}}`), RequestState: []byte("kept")}, nil
		}
		return &busv1.Result{Json: fmt.Appendf(nil, `{"answers":%s,"state":%q,"id":%q}`, req.InputResponses, req.RequestState, req.Id)}, nil
	}
}

func TestTaskAnswers(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	tasks := openTasks(t, url)
	var runs atomic.Int32
	worker(t, url, asks(&runs))
	id := begin(t, tasks, "x")
	rec := becomes(t, tasks, id, asking)
	if string(rec.InputRequests) != `{"a":{"method":"m"},"b":{"method":"n"}}` {
		t.Errorf("asks %s", rec.InputRequests)
	}
	drained(t, url)
	answer := func(answers string) {
		t.Helper()
		if err := tasks.Answer(t.Context(), id, []byte(answers)); err != nil {
			t.Errorf("%s: %v", answers, err)
		}
	}
	for _, ignored := range []string{`{}`, `{"c":{}}`, `{"a":1,"b":null}`} {
		answer(ignored)
		if got, err := tasks.Get(t.Context(), id); err != nil || !proto.Equal(got, rec) {
			t.Errorf("%s changes the task to %v, %v", ignored, got, err)
		}
	}
	answer(`{"a":{"x":1},"c":{}}`)
	if got, err := tasks.Get(t.Context(), id); err != nil || got.Status != asking || string(got.InputRequests) != `{"b":{"method":"n"}}` {
		t.Errorf("one answered: %v, %v", got, err)
	}
	answer(`{"a":{"x":2},"b":{"y":1}}`)
	got := becomes(t, tasks, id, completed)
	if want := fmt.Sprintf(`{"answers":{"a":{"x":1},"b":{"y":1}},"state":"kept","id":%q}`, id); string(got.Result.Json) != want {
		t.Errorf("result %s\n want %s", got.Result.Json, want)
	}
	answer(`{"a":{},"b":{}}`)
	drained(t, url)
	if n := runs.Load(); n != 2 {
		t.Errorf("%d runs", n)
	}
	fails(t, tasks.Answer(t.Context(), id, []byte(`[]`)), fault.InvalidParams, fault.No)
}

// Answers that arrive concurrently are all kept, and cause one run.
func TestTaskAnswersAtOnce(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	tasks := openTasks(t, url)
	var runs atomic.Int32
	worker(t, url, asks(&runs))
	for range 20 {
		runs.Store(0)
		id := begin(t, tasks, "x")
		becomes(t, tasks, id, asking)
		var all sync.WaitGroup
		for _, answers := range []string{`{"a":{}}`, `{"b":{}}`, `{"a":{},"b":{}}`, `{"a":{},"b":{}}`} {
			all.Go(func() {
				if err := tasks.Answer(t.Context(), id, []byte(answers)); err != nil {
					t.Errorf("%s: %v", answers, err)
				}
			})
		}
		all.Wait()
		becomes(t, tasks, id, completed)
		if n := runs.Load(); n != 2 {
			t.Fatalf("%d runs", n)
		}
	}
	drained(t, url)
}

// Answers, cancellations and the worker race for a task: it ends one way, and
// the queue is left empty.
func TestTaskRaces(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	tasks := openTasks(t, url)
	var runs atomic.Int32
	worker(t, url, asks(&runs))
	for range 20 {
		id := begin(t, tasks, "x")
		becomes(t, tasks, id, asking)
		var all sync.WaitGroup
		all.Go(func() {
			if err := tasks.Answer(t.Context(), id, []byte(`{"a":{},"b":{}}`)); err != nil {
				t.Error(err)
			}
		})
		all.Go(func() {
			if err := tasks.Cancel(t.Context(), id); err != nil {
				t.Error(err)
			}
		})
		all.Wait()
		var first *busv1.TaskRecord
		bustest.Eventually(t, "the task is over", func() bool {
			var err error
			first, err = tasks.Get(t.Context(), id)
			return err == nil && (first.Status == completed || first.Status == cancelled)
		})
		drained(t, url)
		if last, err := tasks.Get(t.Context(), id); err != nil || !proto.Equal(first, last) {
			t.Fatalf("ended as %v, then as %v, %v", first, last, err)
		}
	}
}

// An edge may die between queueing a run and writing its record.
func TestTaskRunAheadOfItsRecord(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	tasks := openTasks(t, url)
	var runs atomic.Int32
	worker(t, url, asks(&runs))
	id := begin(t, tasks, "x")
	becomes(t, tasks, id, asking)
	queue(t, url, id, 2, jetstream.WithMsgID(id+".2"))
	if err := tasks.Answer(t.Context(), id, []byte(`{"a":{},"b":{}}`)); err != nil { // the client repeats
		t.Fatal(err)
	}
	becomes(t, tasks, id, completed)
	drained(t, url)
	if n := runs.Load(); n != 2 {
		t.Errorf("%d runs", n)
	}
}

// A copy of a run's message does not start a second attempt while the first runs.
func TestTaskCopies(t *testing.T) {
	t.Parallel()
	// If the machine suspends an instance for three seconds, its run is given to another one.
	more := 1
	for n := 0; n < 3 && more > 0; n++ {
		more = copies(t)
	}
	if more > 0 {
		t.Errorf("%d more attempts", more)
	}
}

// copies returns the number of attempts beyond the first.
func copies(t *testing.T) (more int) {
	t.Helper()
	url := bustest.Server(t)
	tasks := openTasks(t, url)
	started, release := make(chan struct{}, 16), make(chan struct{})
	h := func(context.Context, *busv1.Request, func(string)) (proto.Message, error) {
		started <- struct{}{}
		<-release
		return &busv1.Result{Json: []byte(`{}`)}, nil
	}
	worker(t, url, h)
	worker(t, url, h)
	id := begin(t, tasks, "x")
	await(t, "the task runs", started)
	for range 6 {
		queue(t, url, id, 1)
	}
	js := rawJetStream(t, url)
	bustest.Eventually(t, "copies are dropped by the instance that does not run the task", func() bool {
		s, err := js.Stream(t.Context(), "TASKS")
		return err == nil && s.CachedInfo().State.Msgs < 7
	})
	close(release)
	becomes(t, tasks, id, completed)
	drained(t, url)
	return len(started)
}

func TestTaskJunkInTheQueue(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	tasks := openTasks(t, url)
	js := rawJetStream(t, url)
	for _, junk := range []string{"", "\xff", "hello"} {
		if _, err := js.Publish(t.Context(), "mcp.task.svc", []byte(junk)); err != nil {
			t.Fatal(err)
		}
	}
	queue(t, url, "other.AAAAAAAAAAAAAAAAAAAAAAAAAA", 1)
	queue(t, url, "svc.AAAAAAAAAAAAAAAAAAAAAAAAAA", 1) // its creation failed
	worker(t, url, done)
	becomes(t, tasks, begin(t, tasks, "x"), completed)
	drained(t, url)
}

func TestTaskExpires(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	tasks := openTasks(t, url)
	id := begin(t, tasks, "x")
	rewrite(t, url, id, func(rec *busv1.TaskRecord) {
		rec.CreatedUnixNano = uint64(time.Now().Add(-3 * time.Hour).UnixNano())
	})
	if _, err := tasks.Get(t.Context(), id); !errors.Is(err, bus.ErrNoKey) {
		t.Errorf("get: %v", err)
	}
	if err := tasks.Cancel(t.Context(), id); !errors.Is(err, bus.ErrNoKey) {
		t.Errorf("cancel: %v", err)
	}
	var ran atomic.Bool
	worker(t, url, func(context.Context, *busv1.Request, func(string)) (proto.Message, error) {
		ran.Store(true)
		return &busv1.Result{}, nil
	})
	drained(t, url)
	if ran.Load() {
		t.Error("an expired task ran")
	}
}

// Each write keeps the record's remaining time to live.
func TestTaskRecordsGoAway(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	tasks := openTasks(t, url)
	var id string
	var err error
	for range 5 { // two seconds may be over before it is cancelled
		id = begin(t, tasks, "x")
		rewrite(t, url, id, func(rec *busv1.TaskRecord) {
			rec.TtlMs = uint64(time.Since(time.Unix(0, int64(rec.CreatedUnixNano))).Milliseconds() + 2000)
		})
		if err = tasks.Cancel(t.Context(), id); !errors.Is(err, bus.ErrNoKey) {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	kv, err := rawJetStream(t, url).KeyValue(t.Context(), bus.TasksBucket)
	if err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "the record is gone", func() bool {
		_, err := kv.Get(t.Context(), id)
		return errors.Is(err, jetstream.ErrKeyNotFound)
	})
}

func TestTaskTooLargeForItsAnswers(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	tasks := openTasks(t, url)
	var runs atomic.Int32
	worker(t, url, asks(&runs))
	id := begin(t, tasks, "x")
	becomes(t, tasks, id, asking)
	big := `{"x":"` + strings.Repeat("x", 1<<20) + `"}`
	for _, answers := range []string{`{"a":` + big + `}`, `{"a":{},"b":` + big + `}`} {
		fails(t, tasks.Answer(t.Context(), id, []byte(answers)), fault.TooLarge, fault.No)
	}
	if err := tasks.Answer(t.Context(), id, []byte(`{"a":{},"b":{}}`)); err != nil {
		t.Error(err)
	}
	becomes(t, tasks, id, completed)
	drained(t, url)
}
