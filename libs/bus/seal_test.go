package bus_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/permission"
	"github.com/busbar-mcp/busbar/libs/bus/secret"
	"github.com/busbar-mcp/busbar/libs/bustest"
)

// withKeys joins a plain bus with keys.
func withKeys(t testing.TB, url string, of string, keys ...secret.Key) *bus.Conn {
	t.Helper()
	conn, err := bus.Connect(t.Context(), bus.Config{URL: url, Secret: secret.Secret{Of: of, Keys: keys}, Logger: bustest.Logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// sealing serves svc, and counts what ran.
func sealing(t testing.TB, conn *bus.Conn) (*bus.Server, *atomic.Int32) {
	t.Helper()
	var ran atomic.Int32
	s, err := bus.Serve(t.Context(), conn, bus.ServerConfig{Service: "svc", Handler: func(context.Context, *busv1.Request, *bus.Responder) (proto.Message, error) {
		ran.Add(1)
		return &busv1.Result{Json: []byte(`{}`)}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Drain(context.Background()) })
	return s, &ran
}

// A service with a key runs only requests that an edge has sealed for it: none that was changed, is
// for another service, is too old, or is a copy. The sender receives no answer.
func TestCase69SealedRequests(t *testing.T) {
	t.Parallel()
	url, master := bustest.Server(t), secret.NewKey()
	edge := withKeys(t, url, secret.Edges, master)
	s, ran := sealing(t, withKeys(t, url, "svc", master.ForService("svc")))
	heard := make(chan *nats.Msg, 64)
	if _, err := edge.NATS().ChanSubscribe("mcp.call.svc.>", heard); err != nil {
		t.Fatal(err)
	}
	if _, err := bustest.Caller(t, edge).Call(t.Context(), "svc", toolCall(`{"a":1}`), nil); err != nil || ran.Load() != 1 {
		t.Fatalf("a sealed call: %v, %d ran", err, ran.Load())
	}
	sealed := await(t, "the request", heard).Data
	if _, err := bustest.Caller(t, edge).Call(t.Context(), "svc", toolCall(`{"a":"`+strings.Repeat("x", 200<<10)+`"}`), nil); err != nil || ran.Load() != 2 {
		t.Fatalf("a large sealed call: %v, %d ran", err, ran.Load())
	}
	large := await(t, "the request", heard).Data
	large[100<<10] ^= 1
	capture := func(conn *bus.Conn, service string, change func(*busv1.Request)) []byte {
		t.Helper()
		at := make(chan *nats.Msg, 1)
		sub, err := edge.NATS().ChanSubscribe("mcp.call."+service+".>", at)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = sub.Unsubscribe() }()
		if err := edge.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), bustest.Patience)
		defer cancel() // nobody answers
		req := toolCall(`{}`)
		if change != nil {
			change(req)
		}
		caller := bustest.Caller(t, conn)
		go func() { _, _ = caller.Call(ctx, service, req, nil) }()
		return await(t, "the request", at).Data
	}
	before := ran.Load()
	other := capture(edge, "other", nil)
	unsealed := capture(bustest.Join(t, url), "svc", nil)
	foreign := capture(withKeys(t, url, secret.Edges, secret.NewKey()), "svc", nil)
	old := capture(at(t, url, master, -10*time.Minute), "svc", nil)
	flipped := slices.Clone(sealed)
	flipped[2] ^= 1
	again := &busv1.Request{}
	if err := proto.Unmarshal(sealed, again); err != nil {
		t.Fatal(err)
	}
	again.Identity, again.Id = &busv1.Identity{Principal: "ceo"}, bus.NewID()
	changed, err := proto.Marshal(again)
	if err != nil {
		t.Fatal(err)
	}
	nc := bustest.Join(t, url).NATS()
	bustest.Eventually(t, "what was captured has been refused", func() bool { return s.Stats().Refused == 3 })
	for name, data := range map[string][]byte{
		"not sealed": unsealed, "by who has another master key": foreign, "for another service": other, "too old": old, "changed": changed,
		"a bit flipped": flipped, "a bit of a large one flipped": large, "seal cut": sealed[:len(sealed)-1], "without its seal": sealed[:len(sealed)-35], "a field after the seal": append(slices.Clone(sealed), 0x50, 1),
		"the seal alone": sealed[len(sealed)-35:], "a copy": sealed, "nothing": nil,
	} {
		t.Run(name, func(t *testing.T) {
			reply := "mcp.reply.svc.forger." + strings.ReplaceAll(name, " ", "-")
			sub, err := nc.SubscribeSync(reply)
			if err != nil {
				t.Fatal(err)
			}
			refused := s.Stats().Refused
			if err := nc.PublishRequest("mcp.call.svc.tools.call", reply, data); err != nil {
				t.Fatal(err)
			}
			if name != "a copy" { // which is found by its id, after the seal
				bustest.Eventually(t, "it is refused", func() bool { return s.Stats().Refused == refused+1 })
			}
			// A later request has run, so an earlier one has run too, or never will.
			if _, err := bustest.Caller(t, edge).Call(t.Context(), "svc", toolCall(`{}`), nil); err != nil {
				t.Fatal(err)
			}
			before++
			if n := ran.Load(); n != before {
				t.Errorf("%d ran, want %d", n, before)
			}
			if err := nc.Flush(); err != nil {
				t.Fatal(err)
			}
			if n, _, _ := sub.Pending(); n > 0 {
				t.Error("the forger has an answer")
			}
		})
	}
}

// at is an edge with a wrong clock.
func at(t *testing.T, url string, master secret.Key, by time.Duration) *bus.Conn {
	t.Helper()
	conn, err := bus.Connect(t.Context(), bus.Config{
		URL: url, Secret: secret.Secret{Of: secret.Edges, Keys: []secret.Key{master}}, Logger: bustest.Logger(t), Now: func() time.Time { return time.Now().Add(by) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// During a change of keys, edges with the old key and edges with the new one are served.
func TestSealsWhileKeysChange(t *testing.T) {
	t.Parallel()
	url, before, after := bustest.Server(t), secret.NewKey(), secret.NewKey()
	sealing(t, withKeys(t, url, "svc", after.ForService("svc"), before.ForService("svc")))
	for name, keys := range map[string][]secret.Key{"old": {before}, "new": {after}, "new, and the old still there": {after, before}} {
		if _, err := bustest.Caller(t, withKeys(t, url, secret.Edges, keys...)).Call(t.Context(), "svc", toolCall(`{}`), nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// BenchmarkSeal measures making and checking a seal.
func BenchmarkSeal(b *testing.B) {
	for name, size := range map[string]int{"100B": 100, "4KiB": 4 << 10, "1MiB": 1 << 20} {
		b.Run(name, func(b *testing.B) {
			req := toolCall(`"` + strings.Repeat("x", size) + `"`)
			req.Id, req.Identity = bus.NewID(), &busv1.Identity{Principal: "ada", Tenant: "acme"}
			for _, keys := range []int{0, 1} {
				b.Run(map[int]string{0: "without", 1: "with"}[keys], func(b *testing.B) {
					b.ReportAllocs()
					seal := bus.Sealed(b, keys == 1)
					for b.Loop() {
						seal(req)
					}
				})
			}
		})
	}
}

// A command that a person waits for ends if NATS rejects it or is not there, and says what is
// missing.
func TestEndRefused(t *testing.T) {
	t.Parallel()
	f := bustest.NewFleet(t)
	ctx, cancel := context.WithTimeout(t.Context(), bustest.Patience)
	defer cancel()
	_, err := bus.Connect(ctx, bus.Config{URL: f.URL, User: permission.Operator, EndRefused: true, Logger: bustest.Logger(t)})
	if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "operator.secret") {
		t.Errorf("%v (%v)", err, ctx.Err())
	}
	_, err = bus.Connect(ctx, bus.Config{URL: "nats://127.0.0.1:1,nats://127.0.0.1:2", EndRefused: true, Logger: bustest.Logger(t)})
	if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "does not answer; start it") {
		t.Errorf("%v (%v)", err, ctx.Err())
	}
	_, err = bus.Connect(ctx, bus.Config{URL: "u:s3cret@127.0.0.1:1", EndRefused: true, Logger: bustest.Logger(t)})
	if err == nil || !strings.HasPrefix(err.Error(), "NATS at nats://127.0.0.1:1 does not answer") || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("a URL without a scheme: %v", err)
	}
	// A server that is away does no harm.
	conn, err := bus.Connect(ctx, func() bus.Config {
		cfg := f.Config(t, permission.Operator)
		cfg.URL, cfg.EndRefused = "nats://127.0.0.1:1,"+cfg.URL, true
		return cfg
	}())
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}

// A permission that NATS denies to a command is reported once: in its error, otherwise in the log.
func TestDeniedIsToldOnce(t *testing.T) {
	t.Parallel()
	f := bustest.NewFleet(t, bustest.Of(t, "svc"))
	for _, asked := range []bool{true, false} {
		cfg := f.Config(t, "svc")
		var log bytes.Buffer
		cfg.EndRefused, cfg.Logger = true, slog.New(slog.NewTextHandler(&log, nil))
		conn, err := bus.Connect(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := conn.NATS().SubscribeSync("$KV.names.>"); err != nil {
				t.Fatal(err)
			}
		}
		if asked {
			if err := conn.Flush(t.Context()); err == nil || !strings.Contains(err.Error(), "denies") {
				t.Error(err)
			}
		}
		bustest.Eventually(t, "NATS says what it denies", func() bool { return conn.NATS().LastError() != nil })
		conn.Close()
		if n := strings.Count(log.String(), "denies"); asked && n != 0 || !asked && n != 1 {
			t.Errorf("asked %v: the log has %q", asked, log.String())
		}
	}
}

// A program that keeps retrying logs immediately which secret is missing.
func TestRefusedIsTold(t *testing.T) {
	t.Parallel()
	f := bustest.NewFleet(t)
	ctx, cancel := context.WithTimeout(t.Context(), bustest.Patience)
	defer cancel()
	log := slog.New(slog.NewTextHandler(told{"operator.secret", cancel}, nil))
	if _, err := bus.Connect(ctx, bus.Config{URL: f.URL, User: permission.Operator, Logger: log}); err == nil || !errors.Is(ctx.Err(), context.Canceled) {
		t.Errorf("%v (%v)", err, ctx.Err())
	}
}

// told calls heard when a text is written.
type told struct {
	text  string
	heard func()
}

func (w told) Write(line []byte) (int, error) {
	if strings.Contains(string(line), w.text) {
		w.heard()
	}
	return len(line), nil
}
