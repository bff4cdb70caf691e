package bus_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// F2: the edge's connection breaks after the message that makes a task due, and
// before its acknowledgement. The task runs, so it is a task, and stays one.
func TestF2TaskThatWasTakenIsATask(t *testing.T) {
	t.Parallel()
	natsURL := bustest.Server(t)
	began, release := make(chan struct{}), make(chan struct{})
	var runs atomic.Int32
	worker(t, natsURL, func(ctx context.Context, req *busv1.Request, say func(string)) (proto.Message, error) {
		if runs.Add(1) == 1 {
			close(began)
		}
		<-release
		return done(ctx, req, say)
	})
	var armed atomic.Bool
	through := cutAfter(t, natsURL, []byte("PUB mcp.task.svc"), &armed, began)
	tasks := openTasks(t, through)
	armed.Store(true)
	rec, err := tasks.Create(t.Context(), "svc", toolCall(`{}`), &busv1.Task{})
	close(release)
	if armed.Load() {
		t.Fatal("the connection was not cut")
	}
	if err != nil {
		t.Fatalf("it ran %d times, and Create says: %v", runs.Load(), err)
	}
	if rec.Worker == "" || rec.Attempt != 1 {
		t.Errorf("not the worker's record: %v", rec)
	}
	becomes(t, openTasks(t, natsURL), rec.Request.Id, completed)
	if n := runs.Load(); n != 1 {
		t.Errorf("ran %d times", n)
	}
	drained(t, natsURL)
}

// A stored change of a task whose acknowledgement is lost may have had its effect.
func TestTaskChangeWithoutAnAnswerIsUnknown(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	tasks := openTasks(t, url)
	id := begin(t, tasks, "x")
	var armed atomic.Bool
	stored := make(chan struct{})
	through := openTasks(t, cutAfter(t, url, []byte("HPUB $KV.tasks."), &armed, stored))
	armed.Store(true)
	said := make(chan error, 1)
	go func() { said <- through.Cancel(t.Context(), id) }()
	becomes(t, tasks, id, cancelled)
	close(stored)
	fails(t, await(t, "it is said what became of it", said), fault.Unavailable, fault.Unknown)
}

// cutAfter is a proxy to NATS that forwards everything. Once it is armed, the connection of the
// first message with mark receives no more bytes from NATS, and is closed when end is closed.
func cutAfter(t *testing.T, natsURL string, mark []byte, armed *atomic.Bool, end <-chan struct{}) string {
	t.Helper()
	to, err := url.Parse(natsURL)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	forward := func(in, out net.Conn) {
		hangUp := sync.OnceFunc(func() { _, _ = in.Close(), out.Close() })
		var deaf atomic.Bool
		go func() {
			defer hangUp()
			_, _ = io.Copy(writer(func(b []byte) (int, error) {
				if deaf.Load() {
					return len(b), nil
				}
				return in.Write(b)
			}), out)
		}()
		defer hangUp()
		_, _ = io.Copy(writer(func(b []byte) (int, error) {
			if !bytes.Contains(b, mark) || !armed.CompareAndSwap(true, false) {
				return out.Write(b)
			}
			deaf.Store(true)
			_, _ = out.Write(b)
			select {
			case <-end:
			case <-time.After(bustest.Patience):
			}
			return 0, io.EOF
		}), in)
	}
	server := to.Host
	go func() {
		for {
			in, err := ln.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", server)
			if err != nil {
				_ = in.Close()
				return
			}
			go forward(in, out)
		}
	}()
	to.Host = ln.Addr().String()
	return to.String()
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }
