package bus_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/storage"
	"github.com/busbar-mcp/busbar/libs/bus/task"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// small gives a bucket less room than edges give it.
func small(t *testing.T, url, bucket string, bytes int64) {
	t.Helper()
	js := rawJetStream(t, url)
	found, err := js.Stream(t.Context(), "KV_"+bucket)
	if err != nil {
		t.Fatal(err)
	}
	cfg := found.CachedInfo().Config
	cfg.MaxBytes = bytes
	if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
}

// fill writes entries of a service until the bucket takes no more.
func fill(t *testing.T, url, bucket, service, ttl string, size int) {
	t.Helper()
	js := rawJetStream(t, url)
	for i := 0; ; i++ {
		msg := nats.NewMsg(fmt.Sprintf("$KV.%s.%s.I%011d", bucket, service, i))
		msg.Data = make([]byte, size)
		if ttl != "" {
			msg.Header.Set(jetstream.MsgTTLHeader, ttl)
		}
		if _, err := js.PublishMsg(t.Context(), msg); err != nil {
			if !strings.Contains(err.Error(), "maximum") || i == 0 {
				t.Fatalf("entry %d: %v", i, err)
			}
			if size /= 10; size == 0 {
				return
			}
		}
	}
}

// looksAfter is an edge that looks after the storage of a bus.
func looksAfter(t *testing.T, url string, log *bustest.Log) (*bus.Conn, *storage.Storage) {
	t.Helper()
	conn, err := bus.Connect(t.Context(), bus.Config{URL: url, Name: "edge", Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	s, err := storage.Ensure(within(t, bustest.Patience), conn, storage.Auto)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Keep())
	return conn, s
}

// A service that fills the bucket of tasks does not keep other services from creating tasks. It
// loses its tasks beyond its share and can create none until it has fewer. Tasks of others stay.
func TestTasksHaveRoom(t *testing.T) {
	t.Parallel()
	for _, ttl := range []string{"", "never"} {
		t.Run("ttl "+ttl, func(t *testing.T) {
			t.Parallel()
			url := bustest.Server(t)
			log := &bustest.Log{}
			conn, s := looksAfter(t, url, log)
			const room = 4 << 20
			small(t, url, bus.TasksBucket, room)
			tasks := task.OpenIn(conn, s)
			create := func(service string) (*busv1.TaskRecord, error) {
				return tasks.Create(within(t, bustest.Patience), service, toolCall(`{}`), &busv1.Task{})
			}
			before, err := create("text")
			if err != nil {
				t.Fatal(err)
			}
			fill(t, url, bus.TasksBucket, "evil", ttl, 100<<10)
			if _, err := create("text"); err != nil {
				t.Fatalf("a task of another service: %v", err)
			}
			if _, err := tasks.Get(t.Context(), before.Request.Id); err != nil {
				t.Errorf("a task from before: %v", err)
			}
			if _, err := create("evil"); !fault.Is(err, fault.Overloaded) {
				t.Errorf("a task of the service that fills the bucket: %v", err)
			}
			left := 0
			if err := conn.Bucket(bus.TasksBucket).Each(t.Context(), "evil.", func(_ string, value []byte) { left += len(value) }); err != nil {
				t.Fatal(err)
			}
			switch {
			case ttl == "" && (left < room/4 || left > room/2), ttl == "never" && left != 0:
				t.Errorf("%d bytes are left of the service that fills the bucket", left)
			}
			if said := log.String(); !strings.Contains(said, "service=evil") || !strings.Contains(said, `what="bucket tasks"`) {
				t.Errorf("the log does not name the service: %s", said)
			}
			if all := s.Shares(1)["bucket tasks"]; len(all) != 1 || all[0].Service != "evil" {
				t.Errorf("the largest share is %v", all)
			}
		})
	}
}

// Instances and catalogues live as long as their buckets say, and no longer.
func TestNoTimeOfOnesOwn(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	bustest.Connect(t, url) // makes the buckets
	js := rawJetStream(t, url)
	for _, bucket := range []string{bus.RegistryBucket, bus.CatalogueBucket, bus.AuditBucket} {
		for _, ttl := range []string{"never", "100h", "1s"} {
			msg := nats.NewMsg("$KV." + bucket + ".evil.x")
			msg.Header.Set(jetstream.MsgTTLHeader, ttl)
			if _, err := js.PublishMsg(t.Context(), msg); err == nil || !strings.Contains(err.Error(), "TTL is disabled") {
				t.Errorf("bucket %s, %s: %v", bucket, ttl, err)
			}
		}
	}
}

// A registry that one service has filled takes others again by itself, also where NATS keeps what
// it holds for longer than the bucket says, as NATS does with the bucket of an earlier release.
func TestFullRegistryRecovers(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	bustest.Connect(t, url) // makes the buckets
	js := rawJetStream(t, url)
	found, err := js.Stream(t.Context(), "KV_"+bus.RegistryBucket)
	if err != nil {
		t.Fatal(err)
	}
	earlier := found.CachedInfo().Config
	if err := js.DeleteStream(t.Context(), earlier.Name); err != nil {
		t.Fatal(err)
	}
	earlier.AllowMsgTTL, earlier.MaxMsgs = true, -1
	if _, err := js.CreateStream(t.Context(), earlier); err != nil {
		t.Fatal(err)
	}
	log := &bustest.Log{}
	looksAfter(t, url, log)
	small(t, url, bus.RegistryBucket, 256<<10)
	fill(t, url, bus.RegistryBucket, "evil", "never", 3000)
	v := watch(t, bustest.Join(t, url)) // not Connect, which resets the bucket's size
	announce(t, bustest.Join(t, url), "text", "one", "1.0.0", catalogue("text", "a"))
	v.sees(t, "text 1.0.0 x1: a", atOnce)
	stored(t, url, "text.one")
	if said := log.String(); !strings.Contains(said, "service=evil") || !strings.Contains(said, `what="bucket registry"`) {
		t.Errorf("the log does not name the service: %s", said)
	}
}
