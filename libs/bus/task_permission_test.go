package bus_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/permission"
	"github.com/busbar-mcp/busbar/libs/bus/storage"
	"github.com/busbar-mcp/busbar/libs/bus/task"
	"github.com/busbar-mcp/busbar/libs/bustest"
)

// A service runs its tasks with the permissions that docs/reference/bus.md gives it, and these give
// it no access to other services' tasks.
func TestTaskPermissions(t *testing.T) {
	t.Parallel()
	fleet := bustest.NewFleet(t, bustest.Of(t, "svc", permission.Tasks), bustest.Of(t, "other", permission.Tasks))
	edge := fleet.Join(t, permission.Edge, nil)
	if _, err := storage.Ensure(t.Context(), edge, storage.Auto); err != nil {
		t.Fatal(err)
	}
	tasks := task.Open(edge)
	theirs, err := tasks.Create(t.Context(), "other", toolCall(`{}`), &busv1.Task{})
	if err != nil {
		t.Fatal(err)
	}

	conn := fleet.Join(t, "svc", nil)
	s, err := bus.Serve(t.Context(), conn, bus.ServerConfig{Service: "svc", Handler: echo})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Drain(context.Background()) })
	task.Serve(s, done)
	becomes(t, tasks, begin(t, tasks, "x"), completed)
	queue, err := edge.JetStream().Stream(t.Context(), "TASKS")
	if err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "the run is out of the queue", func() bool {
		now, err := queue.Info(t.Context())
		return err == nil && now.State.Msgs == 1 // theirs
	})

	own := task.Open(conn)
	if rec, err := own.Get(within(t, 500*time.Millisecond), theirs.Request.Id); err == nil {
		t.Errorf("read %v", rec)
	}
	js := conn.JetStream()
	if _, err := js.Publish(within(t, 500*time.Millisecond), "$KV.tasks."+theirs.Request.Id, []byte("x")); err == nil {
		t.Error("wrote another service's task")
	}
	for _, filter := range []string{"mcp.task.svc", "mcp.task.other", "mcp.task.>"} {
		if _, err := js.CreateOrUpdateConsumer(within(t, 500*time.Millisecond), "TASKS", jetstream.ConsumerConfig{Durable: "other", FilterSubject: filter, AckPolicy: jetstream.AckExplicitPolicy}); err == nil {
			t.Errorf("made a consumer of %s", filter)
		}
	}
	if rec := becomes(t, tasks, theirs.Request.Id, working); rec.Attempt != 0 {
		t.Errorf("record %v", rec)
	}
}
