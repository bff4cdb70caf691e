package bus_test

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/registry"
	"github.com/busbar-mcp/busbar/libs/bustest"
)

// flood announces so many made-up instances of a service, as fast as the bus takes them.
func flood(t *testing.T, url, service string, instances int) {
	floodWith(t, url, instances, func(i int) (string, string) { return service, fmt.Sprintf("I%011d", i) })
}

// floodWith announces so many made-up instances: named returns the service and the name of each.
func floodWith(t *testing.T, url string, instances int, named func(i int) (service, instance string)) {
	nc := raw(t, url)
	now := uint64(time.Now().UnixNano())
	for i := range instances {
		service, instance := named(i)
		data, err := proto.Marshal(&busv1.Announcement{
			Service: service, Instance: instance, Version: "1.0.0", StartedUnixNano: now, CatalogueDigest: strings.Repeat("0", 64), SentUnixNano: now,
		})
		if err != nil {
			t.Error(err)
			return
		}
		if err := nc.Publish("$KV.registry."+service+"."+instance, data); err != nil {
			t.Error(err)
			return
		}
	}
	if err := nc.FlushTimeout(bustest.Patience); err != nil {
		t.Error(err)
	}
}

// watchLogged watches a registry that has the service text, and keeps what the edge logs.
func watchLogged(t *testing.T, url string) (*bustest.Log, *view) {
	t.Helper()
	log := &bustest.Log{}
	bustest.Connect(t, url) // makes the buckets
	conn, err := bus.Connect(t.Context(), bus.Config{URL: url, Name: "edge", Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	v := watch(t, conn)
	announce(t, bustest.Connect(t, url), "text", "one", "1.0.0", catalogue("text", "a"))
	v.sees(t, "text 1.0.0 x1: a", atOnce)
	return log, v
}

// Made-up instances of three services do not affect other services: those stay, a new one is seen
// at once, and the edge knows which services flood it.
func TestRegistryFlooded(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	log, v := watchLogged(t, url)
	const each = 5 * registry.MaxInstances
	for round := range 3 {
		var evil sync.WaitGroup
		for i := range 3 {
			evil.Go(func() { flood(t, url, fmt.Sprintf("evil%d", i), each) })
		}
		evil.Wait()
		// All announcements are on their way to the edge by now; later ones wait behind them.
		late := announce(t, bustest.Connect(t, url), "late", fmt.Sprint(round), "1.0.0", catalogue("late", "b"))
		v.sees(t, "late 1.0.0 x1: b; text 1.0.0 x1: a", atOnce)
		late.Withdraw(t.Context())
		v.sees(t, "text 1.0.0 x1: a", atOnce)
	}
	for _, s := range v.changes.all() {
		if !strings.Contains(s, "text 1.0.0 x1: a") {
			t.Errorf("the edge saw %q", s)
		}
	}
	floods := v.Overflows()
	if len(floods) != 3 {
		t.Fatalf("floods: %v", floods)
	}
	for i, f := range floods {
		if want := uint64(3 * (each - registry.MaxInstances)); f.Service != fmt.Sprintf("evil%d", i) || f.Refused != want {
			t.Errorf("%v; %d announcements were beyond the limit", f, want)
		}
		bustest.Eventually(t, "the log names "+f.Service, func() bool {
			return strings.Contains(log.String(), "more instances than an edge keeps") && strings.Contains(log.String(), "service="+f.Service)
		})
	}
	bustest.Eventually(t, "the clock is compared with what services say", func() bool {
		off, known := v.ClockOffset()
		return known && off.Abs() <= registry.MaxClockOffset
	})
}

// An edge that is cut off keeps its knowledge, and says that it may be incomplete.
func TestRegistryCutOff(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	var between bustest.Network
	bustest.Connect(t, url) // makes the buckets
	conn, err := bus.Connect(t.Context(), bus.Config{URL: url, Name: "edge", Dialer: &between, Logger: bustest.Logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	v := watch(t, conn)
	announce(t, bustest.Connect(t, url), "text", "one", "1.0.0", catalogue("text", "a"))
	v.sees(t, "text 1.0.0 x1: a", atOnce)
	bustest.Eventually(t, "the edge knows all", v.Current)
	between.Cut()
	bustest.Eventually(t, "the edge knows that it may not know all", func() bool { return !v.Current() })
	announce(t, bustest.Connect(t, url), "late", "one", "1.0.0", catalogue("late", "b"))
	if v.now() != "text 1.0.0 x1: a" || v.Current() {
		t.Errorf("cut off it sees %q, current: %v", v.now(), v.Current())
	}
	between.Mend()
	bustest.Eventually(t, "the edge knows all again", func() bool { return v.Current() && v.now() == "late 1.0.0 x1: b; text 1.0.0 x1: a" })
}

// A user of a bus without permissions makes up thousands of services. Services that were known
// before stay, and a real one that joins among the made-up ones is seen, whatever its name.
func TestRegistryFloodedWithServices(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	log, v := watchLogged(t, url)
	const names = 5 * registry.MaxServices
	made := func(i int) (string, string) { return fmt.Sprintf("evil-%d", i), "one" }
	floodWith(t, url, registry.MaxServices-100, made)
	late := announce(t, bustest.Connect(t, url), "zulu", "one", "1.0.0", catalogue("zulu", "b"))
	v.sees(t, "text 1.0.0 x1: a; zulu 1.0.0 x1: b", atOnce)
	for range 3 {
		floodWith(t, url, names, made)
		late.Withdraw(t.Context())
		v.sees(t, "text 1.0.0 x1: a", atOnce)
		late = announce(t, bustest.Connect(t, url), "zulu", "one", "1.0.0", catalogue("zulu", "b"))
		v.sees(t, "text 1.0.0 x1: a; zulu 1.0.0 x1: b", atOnce)
	}
	for _, s := range v.changes.all() {
		if !strings.Contains(s, "text 1.0.0 x1: a") {
			t.Errorf("the edge saw %q", s)
		}
	}
	floods := v.Overflows()
	if len(floods) != 1 || floods[0].Service != "" || floods[0].Refused < names-registry.MaxServices || !strings.HasPrefix(floods[0].Latest, "evil-") {
		t.Errorf("the floods are %v", floods)
	}
	bustest.Eventually(t, "the log names one of them", func() bool { return strings.Contains(log.String(), "more services announce themselves") })
	if n := strings.Count(log.String(), "\n"); n > 20 {
		t.Errorf("the log has %d lines:\n%.2000s", n, log)
	}
}
