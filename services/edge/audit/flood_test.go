package audit_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/sourcegraph/conc/pool"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/auditlog"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/audit"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// from is a call of a client at an address.
func from(address, name string) *gateway.Call {
	c := call(name, `{"n":1}`)
	c.Credentials = gateway.Credentials{Address: address}
	return c
}

// A flood of refusals becomes a few events, which say how many there were. Other callers'
// refusals are recorded beside it.
func TestC1RefusalsAreCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const window = 2 * time.Second
	e := w.joinWith(t, audit.Config{RefusalWindow: window})
	const flood, names = 1500, 400
	begun := time.Now()
	for n := range flood {
		if _, err := e.Do(t.Context(), from("192.0.2.1", fmt.Sprint("nope", n%names)), nil); !fault.Is(err, fault.UnknownTool) {
			t.Fatal(err)
		}
	}
	other := from("192.0.2.2", "nope1")
	_, _ = e.Do(t.Context(), other, nil)
	otherID := e.id(other)
	var own, counted, whole int
	bustest.Eventually(t, "every refusal is recorded or counted", func() bool {
		own, counted, whole = 0, 0, 0
		for _, e := range w.stream(t) {
			switch {
			case e.Repeated > 0:
				counted += int(e.Repeated)
				if e.Outcome != "unknown_tool" || e.Executed != "no" || e.Call+"-3" != e.Id || e.Edge == "" || e.Principal != "anonymous" && e.Principal != "" {
					t.Fatalf("%v", e)
				}
			case e.Call == otherID:
				own++
			default:
				whole++
			}
		}
		return own == 1 && whole+counted == flood
	})
	// Each window has room for that many.
	if windows := 1 + int(time.Since(begun)/window); whole > (256+8)*windows {
		t.Errorf("%d of %d refusals have an event of their own in %d windows", whole, flood, windows)
	}
}

// The questions of a follower of the trail are one event in a window, and one that counts the
// others. A refused question has its own.
func TestQuestionsOfAFollowerAreCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.joinWith(t, audit.Config{RefusalWindow: time.Hour})
	record := func(outcome string, err *fault.Error) {
		question := gateway.View{Call: &gateway.Call{Door: "audit", Method: gateway.AuditQuery, Name: "tail"}, ID: bus.NewCallID(), Principal: gateway.Principal{Name: "anna"}, Account: "anna"}
		if err := e.trail.Record(t.Context(), gateway.Record{View: question, Outcome: outcome, Err: err}); err != nil {
			t.Fatal(err)
		}
	}
	const questions = 50
	for range questions {
		record("ok", nil)
	}
	record("forbidden", fault.New(fault.Forbidden, "not for you"))
	e.close()
	whole, repeated, refused := 0, 0, 0
	for _, event := range w.stream(t) {
		switch {
		case event.Outcome == "forbidden":
			refused++
		case event.Repeated > 0:
			repeated += int(event.Repeated)
		default:
			whole++
		}
	}
	if whole != 1 || repeated != questions-1 || refused != 1 {
		t.Errorf("%d events, %d counted, %d refused", whole, repeated, refused)
	}
}

// While the bus takes nothing, a client that floods the edge loses only its own records.
func TestC1FloodHidesNothingOfOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.join(t, "", true)
	if err := w.js.DeleteStream(t.Context(), "AUDIT"); err != nil {
		t.Fatal(err)
	}
	const flood, others, each = 9_000, 20, 10
	for range each {
		for o := range others {
			if _, err := e.Do(t.Context(), from(fmt.Sprint("198.51.100.", o), "echo"), nil); err != nil {
				t.Fatal(err)
			}
		}
		p := pool.New().WithErrors()
		for range 4 {
			p.Go(func() error {
				for range flood / each / 4 {
					if _, err := e.Do(t.Context(), &gateway.Call{Door: "test", Method: mcp.MethodResourcesRead, Name: "note:///one", Credentials: gateway.Credentials{Address: "192.0.2.1"}}, nil); err != nil {
						return err
					}
				}
				return nil
			})
		}
		if err := p.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	bustest.Eventually(t, "the flood has lost some", func() bool { return e.trail.Stats().Dropped > 0 })
	bustest.Connect(t, w.url) // brings the stream back
	bustest.Eventually(t, "nothing waits", func() bool { return e.trail.Stats().Queued == 0 })
	kept := 0
	for _, event := range w.stream(t) {
		if event.Name == "echo" {
			kept++
		}
	}
	if kept != others*each {
		t.Errorf("%d events of others are kept, want %d", kept, others*each)
	}
}

// A full stream refuses events of reads, and still takes events of effects. The last of
// its room is for the ends of calls that have begun.
func TestC1ReadsLeaveRoomForEffects(t *testing.T) {
	t.Parallel()
	for name, spool := range map[string]string{"with a spool": t.TempDir(), "without one": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			e := w.join(t, spool, true)
			log, err := auditlog.New(bustest.Connect(t, w.url), "other")
			if err != nil {
				t.Fatal(err)
			}
			w.resize(t, 256<<10)
			bustest.Eventually(t, "the edge sees it", func() bool { return e.trail.Stats().Stream.Limit == 256<<10 })
			padding := fmt.Sprintf(`{"text":"%01000d"}`, 1)
			bustest.Eventually(t, "reads have filled their part", func() bool {
				for range 20 {
					_, _ = e.Do(t.Context(), call("echo", padding), nil)
				}
				return log.Look(t.Context()) == nil && log.Room(auditlog.Read) != nil
			})
			for range 200 { // these stay with the edge
				_, _ = e.Do(t.Context(), call("echo", padding), nil)
			}
			before := w.executions()
			bustest.Eventually(t, "effects run", func() bool {
				_, err := e.Do(t.Context(), call("effect", "{}"), nil)
				if err != nil && (!bustest.StoodStill(err.Error()) || strings.Contains(err.Error(), "nearly full")) {
					t.Fatal(err)
				}
				return w.executions()-before >= 20
			})
			bustest.Eventually(t, "effects are refused where it is nearly full", func() bool {
				_, err := e.Do(t.Context(), call("effect", "{}"), nil)
				return fault.Is(err, fault.Unavailable)
			})
			if s := e.trail.Stats(); s.Stream.Bytes >= s.Stream.Limit || s.Queued == 0 && s.Spooled == 0 {
				t.Errorf("%+v", s)
			}
			if _, err := e.trail.Status(); err == nil {
				t.Error("it says that effects run")
			}
			began, events := 0, w.events(t)
			for id, event := range events {
				if event.Outcome == audit.Begun {
					began++
					if events[id[:len(id)-1]+"2"] == nil {
						t.Errorf("%s has no end", id)
					}
				}
			}
			if began < 20 {
				t.Errorf("%d began", began)
			}
			w.resize(t, 8<<20)
			bustest.Eventually(t, "all is sent", func() bool { s := e.trail.Stats(); return s.Queued == 0 && s.Spooled == 0 && s.Dropped == 0 })
			w.calls(t, e)
		})
	}
}

// Records that waited for a stream take at once no more of it than their part.
func TestC1WaitingReadsLeaveRoomForEffects(t *testing.T) {
	t.Parallel()
	for name, spool := range map[string]string{"with a spool": t.TempDir(), "without one": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			e := w.join(t, spool, true)
			if err := w.js.DeleteStream(t.Context(), "AUDIT"); err != nil {
				t.Fatal(err)
			}
			const limit, reads = 256 << 10, 250
			padding := fmt.Sprintf(`{"text":"%01500d"}`, 1)
			for range reads {
				if _, err := e.Do(t.Context(), call("echo", padding), nil); err != nil {
					t.Fatal(err)
				}
			}
			small := auditlog.Stream
			small.Retention, small.MaxBytes = jetstream.LimitsPolicy, limit
			if _, err := w.js.CreateStream(t.Context(), small); err != nil {
				t.Fatal(err)
			}
			if err := auditlog.Ensure(t.Context(), bustest.Connect(t, w.url), 1); err != nil {
				t.Fatal(err)
			}
			bustest.Eventually(t, "the reads fill their part", func() bool { return e.trail.Stats().Stream.Bytes >= limit/4*3 })
			if s := e.trail.Stats(); s.Stream.Bytes > limit/10*8 || s.Queued == 0 && s.Spooled == 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}
