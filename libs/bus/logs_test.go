package bus_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/logs"
	"github.com/busbar-mcp/busbar/libs/bus/permission"
	"github.com/busbar-mcp/busbar/libs/bustest"
)

const levelInfo, levelWarning = 2, 4

// tapped is an instance of a service whose logs can be followed.
func tapped(t *testing.T, conn *bus.Conn, service string) *logs.Tap {
	t.Helper()
	tap := logs.NewTap(conn, service, func(data []byte, limit int) ([]byte, bool) {
		if len(data) > limit {
			return []byte(`"cut"`), true
		}
		return data, false
	})
	stop, err := tap.Serve("instance")
	if err == nil {
		err = conn.Flush(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return tap
}

// heard is what one follower receives.
type heard struct {
	records chan logs.Record
	missed  atomic.Int64
	lapsed  atomic.Int64
	refused atomic.Int64
	here    atomic.Int64
	end     func() error
}

// following follows services until the test, or end, ends it. Records are read by the
// test, one after the other.
func following(t *testing.T, conn *bus.Conn, f logs.Filter, services ...string) *heard {
	t.Helper()
	h := &heard{records: make(chan logs.Record)}
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- logs.Follow(ctx, conn, services, f, logs.Reader{
			Record: func(r logs.Record) error {
				select {
				case h.records <- r:
				case <-ctx.Done():
				}
				return nil
			},
			Missed: func(_, _ string, n uint64) error {
				if h.missed.Add(int64(n)); n == 0 {
					h.lapsed.Add(1)
				}
				return nil
			},
			Here: func(instances, _, refused int) error {
				h.here.Store(int64(instances))
				h.refused.Store(int64(refused))
				return nil
			},
		})
	}()
	var over bool
	h.end = func() (err error) {
		if !over {
			over = true
			cancel(errors.New("a signal"))
			err = <-ended
		}
		return err
	}
	t.Cleanup(func() { _ = h.end() })
	return h
}

func (h *heard) next(t *testing.T) logs.Record {
	t.Helper()
	select {
	case r := <-h.records:
		return r
	case <-time.After(bustest.Patience):
		t.Fatal("no record came")
		return logs.Record{}
	}
}

// logged is the data of a record.
func logged(data string) func() []byte { return func() []byte { return []byte(data) } }

func anna(call string) logs.Of {
	return logs.Of{Call: call, Method: "tools/call", Name: "place", Principal: "anna", Tenant: "shop"}
}

// A user with the operator's rights receives the records that match the filter, from real instances
// of the service; other users receive nothing.
func TestLogsAreFollowed(t *testing.T) {
	t.Parallel()
	fleet := bustest.NewFleet(t, bustest.Of(t, "svc"), bustest.Of(t, "other"))
	svc, other := fleet.Join(t, "svc", nil), fleet.Join(t, "other", slog.New(slog.DiscardHandler))
	tap := tapped(t, svc, "svc")
	if tap.Wants(8) {
		t.Error("records are wanted while nobody follows")
	}
	operator := fleet.Join(t, permission.Operator, nil)
	all := following(t, operator, logs.Filter{}, "svc")
	shop := following(t, operator, logs.Filter{Level: "warning", Tenant: "shop", Name: "place", Call: "AB"}, "svc")
	bustest.Eventually(t, "both are known", func() bool { return all.here.Load() == 1 && shop.here.Load() == 1 })

	tap.Say(logs.Of{Call: "CD", Name: "place", Principal: "bob", Tenant: "mill"}, levelWarning, true, "", func() []byte {
		tap.Say(logs.Of{Call: "CD", Name: "place"}, levelInfo, false, "", logged(`"of what is logged"`))
		return []byte(`"of another tenant"`)
	})
	if r := all.next(t); r.Number != 1 || string(r.Data) != `"of what is logged"` {
		t.Errorf("heard %+v", r)
	}
	if r := all.next(t); r.Tenant != "mill" || string(r.Data) != `"of another tenant"` || r.Service != "svc" || r.Instance != "instance" || r.Number != 2 || r.Level != "warning" || !r.Client {
		t.Errorf("heard %+v", r)
	}
	other1 := anna("ABC")
	other1.Name = "price"
	for i, of := range []logs.Of{anna("ACC"), other1, anna("ABC"), anna("ABC")} {
		level := levelWarning
		if i == 2 {
			level = levelInfo
		}
		tap.Say(of, level, false, "store", logged(fmt.Sprintf(`{"n":%d}`, i)))
		if r := all.next(t); r.Number != uint64(i+3) {
			t.Errorf("heard %+v", r)
		}
	}
	if r := shop.next(t); r.Call != "ABC" || !strings.Contains(string(r.Data), `"n":3`) || r.Logger != "store" || r.Number != 1 {
		t.Errorf("through the filter: %+v", r)
	}
	tap.Say(anna("ABC"), levelWarning, true, "", logged(`"`+strings.Repeat("long ", 8<<10)+`"`))
	if r := all.next(t); !r.Cut || string(r.Data) != `"cut"` {
		t.Errorf("%d bytes of data, cut: %t", len(r.Data), r.Cut)
	}

	// A service can neither follow another service nor send records in its name.
	if err := logs.Follow(t.Context(), other, []string{"svc"}, logs.Filter{}, logs.Reader{Here: func(int, int, int) error { return nil }}); err == nil || !strings.Contains(err.Error(), "denies") {
		t.Errorf("a service follows another one: %v", err)
	}
	forged := make(chan struct{}, 1)
	stop, err := other.Subscribe("mcp.ctl.other.logs", func(m *nats.Msg) {
		record := `{"record":{"service":"%s","instance":"i","number":1,"level":"info","call":"FORGED","method":"m","name":"n","principal":"p","time":"2026-01-01T00:00:00Z","client":true,"data":1}}`
		for _, service := range []string{"svc", "other"} {
			_ = other.NATS().Publish(m.Reply, []byte(fmt.Sprintf(record, service)))
		}
		for i := range 1100 { // more than are known of one service
			_ = other.NATS().Publish(m.Reply, fmt.Appendf(nil, `{"here":{"service":"other","instance":"made-up-%d","number":0}}`, i))
		}
		select {
		case forged <- struct{}{}:
		default:
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if err := other.NATS().Flush(); err != nil {
		t.Fatal(err)
	}
	both := following(t, operator, logs.Filter{}, "svc", "other")
	<-forged
	if r := both.next(t); r.Service != "other" || r.Call != "FORGED" {
		t.Errorf("believed: %+v", r)
	}
	// Made-up instances use only the limit of their own service: others are heard.
	bustest.Eventually(t, "as many as are known of one service, and the other one", func() bool { return both.here.Load() == 1001 })
	for _, h := range []*heard{all, shop, both} {
		if err := h.end(); err != nil {
			t.Error(err)
		}
	}
	bustest.Eventually(t, "nobody wants records any more", func() bool { return !tap.Wants(8) })
}

// A follower that does not read delays nobody, and learns how much it missed. The number of
// followers is limited, and one that disappears is forgotten.
func TestLogsOfSlowFollowers(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	var ahead atomic.Int64
	conn, err := bus.Connect(t.Context(), bus.Config{URL: url, Logger: bustest.Logger(t), Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	tap := tapped(t, conn, "svc")
	operator := bustest.Join(t, url)

	slow := following(t, operator, logs.Filter{}, "svc")
	bustest.Eventually(t, "it is known", func() bool { return slow.here.Load() == 1 })
	const many = 5000
	made := 0
	for range many {
		tap.Say(anna("A"), levelInfo, true, "", func() []byte { made++; return []byte(`1`) })
	}
	if made > many/2 {
		t.Errorf("%d of %d records were made, which nobody has room for", made, many)
	}
	if err := conn.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := int64(0)
	for deadline := time.After(bustest.Patience); got+slow.missed.Load() < many; {
		select {
		case <-slow.records:
			got++
		case <-time.After(10 * time.Millisecond):
		case <-deadline:
			t.Fatalf("%d records came and %d are known to be missing, of %d", got, slow.missed.Load(), many)
		}
	}
	if got == 0 || got > many/2 {
		t.Errorf("%d of %d records were sent at once", got, many)
	}

	silent := func(inbox string) string {
		answer := make(chan string, 1)
		stop, err := operator.Subscribe(inbox, func(m *nats.Msg) { answer <- string(m.Data) })
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		if err := operator.NATS().PublishRequest("mcp.ctl.svc.logs", inbox, []byte(`{}`)); err != nil {
			t.Fatal(err)
		}
		select {
		case a := <-answer:
			return a
		case <-time.After(bustest.Patience):
			t.Fatal("no answer")
			return ""
		}
	}
	for i := range 7 {
		if a := silent(fmt.Sprintf("_INBOX.f%d", i)); strings.Contains(a, "refused") {
			t.Errorf("follower %d: %s", i, a)
		}
	}
	if a := silent("_INBOX.ninth"); !strings.Contains(a, `"refused":true`) {
		t.Errorf("a ninth follower: %s", a)
	}
	// The follower that reads nothing may ask once more at this moment.
	bustest.Eventually(t, "followers that do not ask any more are not sent records", func() bool {
		ahead.Add(int64(16 * time.Second))
		return !tap.Wants(8)
	})
	if a := silent("_INBOX.ninth"); strings.Contains(a, `"refused":true`) {
		t.Errorf("once the others are gone: %s", a)
	}
	// A forgotten follower that asks again is told that it may have missed records.
	bustest.Eventually(t, "that it was forgotten is known", func() bool { return slow.lapsed.Load() > 0 })
	// Nothing is published to a subject that is not an inbox, and a malformed request is not
	// answered.
	for inbox, ask := range map[string]string{"mcp.reply.svc.a.b": `{}`, "_INBOX.x": `{"level":"loud"}`, "_INBOX.y": `{`, "_INBOX.z": `{"call":"` + strings.Repeat("x", 9<<10) + `"}`} {
		sub, err := operator.NATS().SubscribeSync(inbox)
		if err != nil {
			t.Fatal(err)
		}
		_ = operator.NATS().PublishRequest("mcp.ctl.svc.logs", inbox, []byte(ask))
		silent("_INBOX.ninth") // after it, in order
		if n, _, _ := sub.Pending(); n != 0 {
			t.Errorf("%s is answered at %s", ask[:min(len(ask), 20)], inbox)
		}
	}
}

// An instance that leaves says so, and is not counted any more; one that comes back is.
func TestFollowedInstancesThatLeave(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	operator, conn := bustest.Join(t, url), bustest.Join(t, url)
	var stops []func()
	for _, name := range []string{"one", "two"} {
		tap := logs.NewTap(conn, "svc", func(data []byte, _ int) ([]byte, bool) { return data, false })
		stop, err := tap.Serve(name)
		if err != nil {
			t.Fatal(err)
		}
		stops = append(stops, stop)
	}
	defer stops[1]()
	all := following(t, operator, logs.Filter{}, "svc")
	bustest.Eventually(t, "both are followed", func() bool { return all.here.Load() == 2 })
	stops[0]()
	bustest.Eventually(t, "one is followed", func() bool { return all.here.Load() == 1 })
	again := tapped(t, conn, "svc")
	bustest.Eventually(t, "another one is followed", func() bool { return all.here.Load() == 2 })
	again.Say(anna("A"), levelWarning, true, "", logged(`1`))
	if r := all.next(t); r.Instance != "instance" || all.missed.Load() != 0 {
		t.Errorf("heard %+v, missed %d", r, all.missed.Load())
	}
}
