package bus_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/registry"
	"github.com/busbar-mcp/busbar/libs/bus/storage"
	"github.com/busbar-mcp/busbar/libs/bustest"
)

// keep maintains the storage of the bus, as an edge does.
func keep(t *testing.T, conn *bus.Conn) *storage.Storage {
	t.Helper()
	s, err := storage.Ensure(t.Context(), conn, storage.Auto)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Keep())
	return s
}

// A disk is lost under running processes: they store again what edges and services know, for
// processes that start later.
func TestD2LostStorageIsFilledAgain(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	conn := bustest.Connect(t, url)
	kept := keep(t, conn)
	secret, err := kept.Shared(t.Context(), bus.KeysBucket, "request-state.1", []byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	watch(t, conn)
	for i := range 3 {
		announce(t, bustest.Connect(t, url), fmt.Sprintf("s%d", i), "one", "1.0.0", catalogue(fmt.Sprintf("s%d", i), "tool"))
	}
	want := "s0 1.0.0 x1: tool; s1 1.0.0 x1: tool; s2 1.0.0 x1: tool"
	js := rawJetStream(t, url)
	stored := func() int {
		kv, err := js.KeyValue(t.Context(), bus.CatalogueBucket)
		if err != nil {
			return 0
		}
		all, _ := kv.Keys(t.Context())
		return len(all)
	}
	bustest.Eventually(t, "the catalogues are stored", func() bool { return stored() == 3 })
	for name := range js.StreamNames(t.Context()).Name() {
		if err := js.DeleteStream(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	begun := time.Now()
	next := bustest.Connect(t, url)
	if _, err := storage.Ensure(t.Context(), next, storage.Auto); err != nil { // empty
		t.Fatal(err)
	}
	v := watch(t, next)
	defer func() {
		if t.Failed() {
			t.Logf("a new edge sees %q", v.now())
		}
	}()
	bustest.Eventually(t, "a new edge knows all", func() bool { return v.now() == want })
	t.Logf("a new edge knows all %v after the loss", time.Since(begun))
	bustest.Eventually(t, "the catalogues are stored again", func() bool { return stored() == 3 })
	again := next.Bucket(bus.KeysBucket)
	bustest.Eventually(t, "the shared key is there again", func() bool {
		got, err := again.Get(t.Context(), "request-state.1")
		return err == nil && string(got) == string(secret)
	})
}

// Running processes create missing buckets again; no process has to start.
func TestD2StorageIsMadeAgain(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	conn := bustest.Connect(t, url)
	keep(t, conn)
	js := rawJetStream(t, url)
	count := func() (n int) {
		for range js.StreamNames(t.Context()).Name() {
			n++
		}
		return n
	}
	before := count()
	for name := range js.StreamNames(t.Context()).Name() {
		if err := js.DeleteStream(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	bustest.Eventually(t, fmt.Sprint("there are ", before, " streams again"), func() bool { return count() == before })
}

// A name that the bus uses itself is refused before anything is subscribed.
func TestReservedServices(t *testing.T) {
	t.Parallel()
	conn := bustest.Connect(t, bustest.Server(t))
	for _, name := range []string{"gateway", "client", "edge"} {
		if err := bus.ValidName(name); err == nil || !strings.Contains(err.Error(), "taken by the bus itself") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := registry.Announce(conn, name, "one", "1.0.0", catalogue(name)); err == nil {
			t.Errorf("%s is announced", name)
		}
	}
}

// Text that is not a URL is not shown: it may hold a password.
func TestL5PasswordsAreNotShown(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"nats://user:s3cr3t/x@127.0.0.1:1", "nats://user:s3cr3t%@127.0.0.1:1", "nats://user:s3cr3t@127.0.0.1:port", "nats://user:12#s3cr3t@127.0.0.1:1",
		"user:s3cr3t?x@127.0.0.1", "nats://s3cr3t@", "nats://user:s3cr3t@127.0.0.1:1", "nats://s3cr3t@127.0.0.1:1", "nats://127.0.0.1:1,nats://u:s3cr3t@ x", "\x7fs3cr3t",
	} {
		var log strings.Builder
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		conn, err := bus.Connect(ctx, bus.Config{URL: url, Logger: textLogger(&log)})
		cancel()
		if err == nil {
			conn.Close()
			t.Fatalf("%q: there is nothing to connect to", url)
		}
		if strings.Contains(err.Error()+log.String(), "s3cr3t") {
			t.Errorf("%q: the password is in %v\n%s", url, err, log.String())
		}
	}
}

// textLogger writes to one place. Its lines come from the connection's own
// goroutine, which has ended when the connection is closed.
func textLogger(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }
