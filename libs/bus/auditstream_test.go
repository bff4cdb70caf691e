package bus_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	auditv1 "github.com/busbar-mcp/busbar/gen/busbar/audit/v1"
	"github.com/busbar-mcp/busbar/libs/bus/auditlog"
	"github.com/busbar-mcp/busbar/libs/bustest"
)

// readAll acknowledges events until it has n different ones.
func readAll(t *testing.T, r *auditlog.Reader, n int) map[string]bool {
	t.Helper()
	seen := map[string]bool{}
	ctx, cancel := context.WithTimeout(t.Context(), bustest.Patience)
	defer cancel()
	for len(seen) < n {
		batch, err := r.Next(ctx)
		if err != nil {
			t.Fatalf("%d of %d events came: %v", len(seen), n, err)
		}
		for _, d := range batch {
			seen[d.Event.Id] = true
			d.Ack()
		}
	}
	return seen
}

// Events that were written down take no room: ten times the size of the stream passes through.
func TestC1AuditStreamLeavesWhatIsAcknowledged(t *testing.T) {
	t.Parallel()
	conn, log, js := auditWorld(t)
	const size, each = 256 << 10, 1000
	resize(t, js, size)
	r, total := auditlog.NewReader(conn, 0), 0
	for n := 1; total < 10*size; n += each {
		events := auditEvents(n, n+each-1)
		for _, e := range events {
			total += proto.Size(e)
		}
		if err := log.Append(t.Context(), events...); err != nil {
			t.Fatalf("after %d bytes: %v", total, err)
		}
		readAll(t, r, each)
		// There is room for two rounds at once, but not for three: NATS acts on an acknowledgement
		// some time after it arrives.
		bustest.Eventually(t, "nothing waits", func() bool { return auditMessages(t, js) == 0 })
	}
	if err := log.Look(t.Context()); err != nil || log.State().Bytes != 0 || log.Room(auditlog.Read) != nil {
		t.Errorf("%v %+v", err, log.State())
	}
}

// A stream of an earlier release kept events after they were read, and cannot be purged.
func TestC1AuditStreamOfAnEarlierRelease(t *testing.T) {
	t.Parallel()
	for _, read := range []bool{true, false} {
		t.Run(fmt.Sprintf("with a reader %v", read), func(t *testing.T) {
			t.Parallel()
			url := bustest.Server(t)
			nc, err := nats.Connect(url, nats.Timeout(bustest.Patience))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(nc.Close)
			js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(bustest.Patience))
			if err != nil {
				t.Fatal(err)
			}
			earlier := jetstream.StreamConfig{
				Name: "AUDIT", Subjects: []string{"mcp.audit.>"}, Storage: jetstream.FileStorage, MaxAge: 7 * 24 * time.Hour, MaxBytes: 1 << 20,
				Discard: jetstream.DiscardNew, DenyDelete: true, DenyPurge: true,
			}
			s, err := js.CreateStream(t.Context(), earlier)
			if err != nil {
				t.Fatal(err)
			}
			const written, pending = 40, 25
			for n := range written + pending {
				data, err := proto.Marshal(&auditv1.AuditEvent{Id: fmt.Sprintf("E%04d-2", n), Edge: "edge1"})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := js.Publish(t.Context(), "mcp.audit.edge1", data); err != nil {
					t.Fatal(err)
				}
			}
			left := written + pending
			if read {
				left = pending
				c, err := s.CreateConsumer(t.Context(), jetstream.ConsumerConfig{Durable: "audit-v1", AckPolicy: jetstream.AckExplicitPolicy, AckWait: 30 * time.Second, MaxDeliver: -1, MaxAckPending: 4000})
				if err != nil {
					t.Fatal(err)
				}
				msgs, err := c.Fetch(written)
				if err != nil {
					t.Fatal(err)
				}
				for m := range msgs.Messages() {
					if err := m.DoubleAck(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
			}
			conn := bustest.Connect(t, url) // an edge of this release
			bustest.Eventually(t, "what was written down has left", func() bool { return auditMessages(t, js) == uint64(left) })
			seen := readAll(t, auditlog.NewReader(conn, 0), left)
			for n := written + pending - left; n < written+pending; n++ {
				if !seen[fmt.Sprintf("E%04d-2", n)] {
					t.Errorf("event %d is lost", n)
				}
			}
			bustest.Eventually(t, "nothing waits", func() bool { return auditMessages(t, js) == 0 })
			// An edge of the earlier release starts, and changes the stream back.
			if _, err := js.UpdateStream(t.Context(), earlier); err != nil {
				t.Fatal(err)
			}
			log, err := auditlog.New(conn, "edge1")
			if err != nil {
				t.Fatal(err)
			}
			if err := log.Look(t.Context()); err != nil {
				t.Fatal(err)
			}
			s, err = js.Stream(t.Context(), "AUDIT")
			if err != nil || s.CachedInfo().Config.Retention != jetstream.InterestPolicy || !s.CachedInfo().Config.DenyPurge || s.CachedInfo().Config.MaxAge != 0 {
				t.Errorf("%v %+v", err, s.CachedInfo().Config)
			}
		})
	}
}

// Events that wait for a reader that never came are not lost, and the consumer
// that keeps them comes back when somebody removes it.
func TestC1AuditStreamWithoutAReader(t *testing.T) {
	t.Parallel()
	conn, log, js := auditWorld(t)
	if err := log.Append(t.Context(), auditEvents(1, 10)...); err != nil {
		t.Fatal(err)
	}
	if n := auditMessages(t, js); n == 0 {
		t.Error("nothing is kept where nobody has read yet")
	}
	if err := js.DeleteConsumer(t.Context(), "AUDIT", "audit-v1"); err != nil {
		t.Fatal(err)
	}
	if err := log.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := log.Append(t.Context(), auditEvents(11, 20)...); err != nil {
		t.Fatal(err)
	}
	if seen := readAll(t, auditlog.NewReader(conn, 0), 10); !seen["E0011-2"] || !seen["E0020-2"] {
		t.Errorf("%v", seen)
	}
}

// An event is taken only from the subject of the edge that it names.
func TestM17AuditEventOfAnotherEdge(t *testing.T) {
	t.Parallel()
	conn, log, js := auditWorld(t)
	forged, err := proto.Marshal(&auditv1.AuditEvent{Id: "E0001-2", Edge: "edge1", Principal: "mallory"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "mcp.audit.whoever", forged); err != nil {
		t.Fatal(err)
	}
	if err := log.Append(t.Context(), auditEvents(1, 1)...); err != nil {
		t.Fatal(err)
	}
	batch, err := auditlog.NewReader(conn, 0).Next(t.Context())
	if err != nil || len(batch) != 1 || batch[0].Event.Principal != "" {
		t.Fatalf("%v %v", batch, err)
	}
	batch[0].Ack()
	dead, err := js.Stream(t.Context(), "DLQ")
	if err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "the forged one is put aside, with the reason", func() bool {
		msg, err := dead.GetLastMsgForSubject(t.Context(), "mcp.dlq.audit")
		return err == nil && string(msg.Data) == string(forged) && msg.Header.Get("Busbar-Subject") == "mcp.audit.whoever"
	})
	bustest.Eventually(t, "nothing waits", func() bool { return auditMessages(t, js) == 0 })
}
