package bus_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	auditv1 "github.com/busbar-mcp/busbar/gen/busbar/audit/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/auditlog"
	"github.com/busbar-mcp/busbar/libs/bus/storage"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
)

func auditWorld(t *testing.T) (*bus.Conn, *auditlog.Log, jetstream.JetStream) {
	t.Helper()
	url := bustest.Server(t)
	conn := bustest.Connect(t, url)
	log, err := auditlog.New(conn, "edge1")
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(url, nats.Timeout(bustest.Patience))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(bustest.Patience))
	if err != nil {
		t.Fatal(err)
	}
	return conn, log, js
}

func auditEvents(from, to int) (events []*auditv1.AuditEvent) {
	for n := from; n <= to; n++ {
		events = append(events, &auditv1.AuditEvent{Id: fmt.Sprintf("E%04d-2", n), Edge: "edge1", Arguments: []byte(strings.Repeat("x", 100))})
	}
	return events
}

// auditMessages is how many messages the stream has.
func auditMessages(t *testing.T, js jetstream.JetStream) uint64 {
	t.Helper()
	s, err := js.Stream(t.Context(), "AUDIT")
	if err != nil {
		t.Fatal(err)
	}
	return s.CachedInfo().State.Msgs
}

func TestAuditLog(t *testing.T) {
	t.Parallel()
	conn, log, js := auditWorld(t)
	if _, err := auditlog.New(conn, "no.name"); err == nil {
		t.Error("a name that is none was taken")
	}
	if err := log.Append(t.Context(), auditEvents(1, 1200)...); err != nil {
		t.Fatal(err)
	}
	if n := auditMessages(t, js); n > 20 {
		t.Errorf("1200 events at once are %d messages", n)
	}
	r, seen := auditlog.NewReader(conn, 0), map[string]bool{}
	for len(seen) < 1200 {
		batch, err := r.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(batch) > 700 {
			t.Errorf("a batch of %d", len(batch))
		}
		for _, d := range batch {
			if seen[d.Event.Id] {
				t.Errorf("%s came twice", d.Event.Id)
			}
			seen[d.Event.Id] = true
			d.Ack()
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
	defer cancel()
	if batch, err := r.Next(ctx); err == nil {
		t.Errorf("%d more", len(batch))
	}
	if err := log.Look(t.Context()); err != nil || log.Room(auditlog.Read) != nil {
		t.Error(err, log.State())
	}
	// The stream is deleted and comes back.
	if err := js.DeleteStream(t.Context(), "AUDIT"); err != nil {
		t.Fatal(err)
	}
	if err := log.Append(t.Context(), auditEvents(2001, 2001)...); !fault.Is(err, fault.Unavailable) {
		t.Errorf("without a stream: %v", err)
	}
	if err := log.Look(t.Context()); !fault.Is(err, fault.Unavailable) {
		t.Errorf("room without a stream: %v", err)
	}
	if _, err := storage.Ensure(t.Context(), conn, storage.Auto); err != nil {
		t.Fatal(err)
	}
	if err := log.Append(t.Context(), auditEvents(2002, 2002)...); err != nil {
		t.Fatal(err)
	}
	if batch, err := r.Next(t.Context()); err != nil || len(batch) != 1 || batch[0].Event.Id != "E2002-2" {
		t.Errorf("%v %v", batch, err)
	}
}

// resize changes the size of the trail's stream.
func resize(t *testing.T, js jetstream.JetStream, bytes int64) jetstream.Stream {
	t.Helper()
	s, err := js.Stream(t.Context(), "AUDIT")
	if err != nil {
		t.Fatal(err)
	}
	cfg := s.CachedInfo().Config
	cfg.MaxBytes = bytes
	if s, err = js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	return s
}

// As the stream fills, reads stop first, then effects; the ends of calls that have begun can always
// be recorded.
func TestC1OnlyEndsMayFillTheStream(t *testing.T) {
	t.Parallel()
	conn, log, js := auditWorld(t)
	const size = 64 << 10
	s := resize(t, js, size)
	if err := log.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	n, full := 0, map[auditlog.Use]uint64{}
	for _, use := range []auditlog.Use{auditlog.Read, auditlog.Begin} {
		for ; log.Room(use) == nil; n++ {
			if err := log.Append(t.Context(), auditEvents(n, n)...); err != nil {
				t.Fatalf("full before it said so: %v", err)
			}
		}
		full[use] = log.State().Bytes
		if log.Room(use+1) != nil {
			t.Errorf("%d bytes are too much for %d too", full[use], use+1)
		}
	}
	if full[auditlog.Read] > size/5*4 || full[auditlog.Begin] > size/20*19 || full[auditlog.Begin] <= full[auditlog.Read] {
		t.Errorf("full at %v", full)
	}
	// An update of the stream keeps its size.
	if _, err := storage.Ensure(t.Context(), conn, storage.Auto); err != nil {
		t.Fatal(err)
	}
	if err := log.Look(t.Context()); err != nil || log.State().Limit != size {
		t.Errorf("%v %+v", err, log.State())
	}
	var err error
	for err = nil; err == nil; n++ {
		err = log.Append(t.Context(), auditEvents(n, n)...)
	}
	if !fault.Is(err, fault.Unavailable) {
		t.Error(err)
	}
	first, err := s.GetMsg(t.Context(), 1)
	if err != nil || first == nil {
		t.Errorf("the first event made room: %v", err)
	}
	if err := s.Purge(t.Context()); err == nil {
		t.Error("the trail was purged")
	}
}

// An unreadable event is tried ten times and then put aside; the events next to it are not delayed.
func TestAuditPoison(t *testing.T) {
	t.Parallel()
	conn, log, js := auditWorld(t)
	if _, err := js.Publish(t.Context(), "mcp.audit.edge1", []byte("\xff\xffno event")); err != nil {
		t.Fatal(err)
	}
	if err := log.Append(t.Context(), auditEvents(1, 3)...); err != nil {
		t.Fatal(err)
	}
	r := auditlog.NewReader(conn, 0)
	if batch, err := r.Next(t.Context()); err != nil || len(batch) != 3 {
		t.Fatalf("%d %v", len(batch), err)
	} else {
		for _, d := range batch {
			d.Ack()
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	dead, err := js.Stream(ctx, "DLQ")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = r.Next(ctx)
	}()
	var msg *jetstream.RawStreamMsg
	bustest.Eventually(t, "it is put aside", func() bool {
		msg, _ = dead.GetLastMsgForSubject(ctx, "mcp.dlq.audit")
		return msg != nil
	})
	if string(msg.Data) != "\xff\xffno event" || triesOf(msg) < 10 || msg.Header.Get("Busbar-Error") == "" {
		t.Errorf("%+v", msg)
	}
	cancel()
	<-done
}

// triesOf is how often an event was tried. A delivery that was late for its request counts too.
func triesOf(msg *jetstream.RawStreamMsg) int {
	n, _ := strconv.Atoi(msg.Header.Get("Busbar-Tries"))
	return n
}

// Events that are appended while a message is on its way make up the next message together, and
// each caller is told that its event is stored.
func TestAuditLogGathers(t *testing.T) {
	t.Parallel()
	conn, log, js := auditWorld(t)
	const callers, each = 64, 20
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for n := range each {
				if err := log.Append(t.Context(), auditEvents(c*each+n, c*each+n)...); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	// Each of the callers waited for its event, so there are some messages. Without sharing there
	// would be one for each event.
	if n := auditMessages(t, js); n < each || n > callers*each/4 {
		t.Errorf("%d events are %d messages", callers*each, n)
	}
	r, seen := auditlog.NewReader(conn, 0), map[string]int{}
	for len(seen) < callers*each {
		batch, err := r.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range batch {
			seen[d.Event.Id]++
			d.Ack()
		}
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("%s came %d times", id, n)
		}
	}
}

// An unreadable event does not affect the others of its message: it alone is put aside, and the
// message is not delivered again.
func TestAuditPoisonInAGroup(t *testing.T) {
	t.Parallel()
	conn, log, js := auditWorld(t)
	good := auditEvents(1, 2)
	var group [][]byte
	for _, e := range good {
		data, err := proto.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		group = append(group, data)
	}
	if err := log.AppendRecords(t.Context(), group[0], []byte("\xff\xffno event"), group[1]); err != nil {
		t.Fatal(err)
	}
	if n := auditMessages(t, js); n != 1 {
		t.Fatalf("%d messages", n)
	}
	r := auditlog.NewReader(conn, time.Second)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	dead, err := js.Stream(ctx, "DLQ")
	if err != nil {
		t.Fatal(err)
	}
	// The bus counts deliveries of the message. A delivery that is late for its request counts
	// there but is not seen here.
	seen, done := map[string]int{}, make(chan struct{})
	go func() {
		defer close(done)
		for {
			batch, err := r.Next(ctx)
			if err != nil {
				return
			}
			for _, d := range batch {
				seen[d.Event.Id]++
				d.Ack()
			}
		}
	}()
	bustest.Eventually(t, "one is put aside, and the message is done with", func() bool {
		msg, err := dead.GetLastMsgForSubject(ctx, "mcp.dlq.audit")
		if err != nil {
			return false
		}
		if string(msg.Data) != "\xff\xffno event" || triesOf(msg) < 10 {
			t.Fatalf("put aside: %+v", msg)
		}
		c, err := js.Consumer(ctx, "AUDIT", "audit-v1")
		return err == nil && c.CachedInfo().NumAckPending == 0
	})
	cancel()
	<-done
	if n := seen["E0001-2"]; n < 2 || seen["E0002-2"] != n {
		t.Errorf("%v", seen)
	}
	if info, err := dead.Info(t.Context()); err != nil || info.State.Msgs != 1 {
		t.Errorf("put aside: %+v %v", info, err)
	}
}
