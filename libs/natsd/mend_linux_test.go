package natsd_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/natsd"
)

// TestFullDisk: a server whose disk is full refuses writes that it cannot store. Once there is
// room, it accepts writes of the same client again by itself; acknowledged writes are not lost.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=48m"); errors.Is(err, syscall.EPERM) {
		t.Skip("a disk that is full takes the right to mount one")
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, 0) })
	s := start(t, natsd.Config{DataDir: filepath.Join(dir, "data")})
	t.Cleanup(s.Stop)
	nc, err := nats.Connect(s.URL(), nats.Timeout(bustest.Patience), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}}); err != nil {
		t.Fatal(err)
	}
	acknowledged := 0
	put := func() error {
		_, err := js.Publish(t.Context(), "s", make([]byte, 32<<10))
		if err == nil {
			acknowledged++
		}
		return err
	}
	for range 10 {
		if err := put(); err != nil {
			t.Fatal(err)
		}
	}
	filler := filepath.Join(dir, "filler")
	fill := func() {
		file, err := os.OpenFile(filler, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		for err == nil {
			_, err = file.Write(make([]byte, 4<<10))
		}
		if closed := file.Close(); closed != nil || !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err, closed)
		}
	}
	for range 2 { // it mends more than once
		fill()
		bustest.Eventually(t, "writes are refused", func() bool { fill(); return put() != nil })
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
		bustest.Eventually(t, "writes are taken again", func() bool { return put() == nil })
	}
	kept, err := js.Stream(t.Context(), "S")
	if err != nil {
		t.Fatal(err)
	}
	if n := kept.CachedInfo().State.Msgs; n < uint64(acknowledged) {
		t.Errorf("%d messages were acknowledged, and %d are there", acknowledged, n)
	}
}
