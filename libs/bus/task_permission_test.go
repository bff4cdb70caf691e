package bus_test

import (
	"context"
	"net/url"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/task"
	"github.com/busbar-mcp/busbar/libs/bustest"
)

// A service runs its tasks with the permissions that docs/reference/bus.md
// gives it, and with them gets at no other service's.
func TestTaskPermissions(t *testing.T) {
	t.Parallel()
	ns, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir(), JetStreamMaxMemory: 64 << 20, JetStreamMaxStore: 4 << 30,
		Users: []*server.User{{
			Username: "svc", Password: "x", Permissions: &server.Permissions{
				Subscribe: &server.SubjectPermission{Allow: []string{"mcp.call.svc.>", "mcp.to.svc.>", "mcp.ctl.svc.>", "_INBOX.>", "$SRV.>"}},
				Publish: &server.SubjectPermission{Allow: []string{
					"mcp.reply.svc.>", "mcp.evt.svc.>", "mcp.live.svc.>", "$KV.registry.svc.>", "$KV.catalogue.svc.>",
					"$KV.tasks.svc.>", "$JS.API.STREAM.INFO.KV_tasks", "$JS.API.DIRECT.GET.KV_tasks.$KV.tasks.svc.>",
					"$JS.API.CONSUMER.CREATE.TASKS.svc.mcp.task.svc", "$JS.API.CONSUMER.MSG.NEXT.TASKS.svc", "$JS.ACK.TASKS.svc.>",
				}},
			},
		}, {Username: "all", Password: "x"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	if !ns.ReadyForConnections(10 * time.Second) {
		t.Fatal("NATS does not start")
	}
	at := func(user string) string {
		return (&url.URL{Scheme: "nats", Host: ns.Addr().String(), User: url.UserPassword(user, "x")}).String()
	}
	tasks := openTasks(t, at("all"))
	theirs, err := tasks.Create(t.Context(), "other", toolCall(`{}`), &busv1.Task{})
	if err != nil {
		t.Fatal(err)
	}

	conn, err := bus.Connect(t.Context(), bus.Config{URL: at("svc"), Logger: bustest.Logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	s, err := bus.Serve(t.Context(), conn, bus.ServerConfig{Service: "svc", Handler: echo})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Drain(context.Background()) })
	task.Serve(s, done)
	becomes(t, tasks, begin(t, tasks, "x"), completed)
	queue, err := rawJetStream(t, at("all")).Stream(t.Context(), "TASKS")
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
	js := rawJetStream(t, at("svc"))
	if _, err := js.Publish(within(t, 500*time.Millisecond), "$KV.tasks."+theirs.Request.Id, []byte("x")); err == nil {
		t.Error("wrote another service's task")
	}
	for _, filter := range []string{"mcp.task.other", "mcp.task.>"} {
		if _, err := js.CreateOrUpdateConsumer(within(t, 500*time.Millisecond), "TASKS", jetstream.ConsumerConfig{Durable: "other", FilterSubject: filter, AckPolicy: jetstream.AckExplicitPolicy}); err == nil {
			t.Errorf("took tasks of %s", filter)
		}
	}
	if rec := becomes(t, tasks, theirs.Request.Id, working); rec.Attempt != 0 {
		t.Errorf("record %v", rec)
	}
}
