package audit_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// slowDisk delays each acknowledgement of the trail. The channel receives a value when a
// message has come.
func (w *world) slowDisk(t testing.TB, each time.Duration) <-chan struct{} {
	t.Helper()
	s, err := w.js.Stream(t.Context(), "AUDIT")
	if err != nil {
		t.Fatal(err)
	}
	cfg := s.CachedInfo().Config
	events := cfg.Subjects[0]
	cfg.Subjects = []string{"elsewhere"}
	if _, err := w.js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	came := make(chan struct{}, 100)
	if _, err := w.js.Conn().Subscribe(events, func(msg *nats.Msg) {
		came <- struct{}{}
		time.AfterFunc(each, func() { _ = msg.Respond([]byte(`{"stream":"AUDIT","seq":1}`)) })
	}); err != nil {
		t.Fatal(err)
	}
	if err := w.js.Conn().Flush(); err != nil {
		t.Fatal(err)
	}
	return came
}

// A record that waits for the one before it, and then for its own, has the time of both.
func TestSlowDisk(t *testing.T) {
	t.Parallel()
	rounds(t, func() error {
		w := newWorld(t)
		e := w.join(t, "", true)
		came := w.slowDisk(t, 500*time.Millisecond)
		done := make(chan error, 2)
		effect := func() {
			_, err := e.Do(t.Context(), call("effect", "{}"), nil)
			done <- err
		}
		go effect()
		<-came
		go effect()
		return errors.Join(<-done, <-done)
	})
}

// rounds repeats a test that a busy machine may spoil: with a disk that is nearly too
// slow, only a few tenths of a second are left.
func rounds(t *testing.T, try func() error) {
	t.Helper()
	var err error
	for range 8 {
		if err = try(); err == nil {
			return
		}
	}
	t.Error(err)
}

// Records for which a disk takes long are not sent twice forever.
func TestSlowDiskHasNoMoreToDo(t *testing.T) {
	t.Parallel()
	rounds(t, func() error {
		w := newWorld(t)
		e := w.join(t, "", true)
		came := w.slowDisk(t, 700*time.Millisecond)
		if _, err := e.Do(t.Context(), call("effect", "{}"), nil); err != nil {
			return err
		}
		if n := len(came); n > 3 {
			return fmt.Errorf("%d messages of a beginning and an end, want the first one twice", n)
		}
		return nil
	})
}
