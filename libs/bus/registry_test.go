package bus_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/internal/subject"
	"github.com/busbar-mcp/busbar/libs/bus/registry"
	"github.com/busbar-mcp/busbar/libs/bus/storage"
	"github.com/busbar-mcp/busbar/libs/bustest"
)

func catalogue(service string, tools ...string) *busv1.Catalogue {
	c := &busv1.Catalogue{Service: service}
	for _, name := range tools {
		c.Tools = append(c.Tools, &busv1.Tool{Name: name, Json: []byte(`{"name":"` + name + `"}`)})
	}
	return c
}

func announce(t *testing.T, conn *bus.Conn, service, instance, version string, c *busv1.Catalogue) *registry.Announcer {
	t.Helper()
	a, err := registry.Announce(conn, service, instance, version, c)
	if err != nil {
		t.Fatalf("announce %s: %v", service, err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		a.Withdraw(ctx)
	})
	return a
}

// view is what an edge sees.
type view struct {
	*registry.Registry
	changes recorder[string]
}

func watch(t *testing.T, conn *bus.Conn) *view {
	t.Helper()
	v := &view{}
	r, err := registry.Watch(t.Context(), conn, func(s []registry.Service) { v.changes.add(describe(s)) })
	if err != nil {
		t.Fatalf("watch: %v", err)
	}
	t.Cleanup(r.Close)
	v.Registry = r
	return v
}

// describe writes services as "name version xInstances: tool tool; …".
func describe(services []registry.Service) string {
	var parts []string
	for _, s := range services {
		var tools []string
		for _, tool := range s.Catalogue.GetTools() {
			tools = append(tools, tool.Name)
		}
		parts = append(parts, fmt.Sprintf("%s %s x%d: %s", s.Name, s.Version, len(s.Instances), strings.Join(tools, " ")))
	}
	return strings.Join(parts, "; ")
}

func (v *view) now() string { return describe(v.Services()) }

// sees waits for a state, which must come within d plus the allowance for a slow machine.
func (v *view) sees(t *testing.T, want string, d time.Duration) {
	t.Helper()
	start := time.Now()
	for v.now() != want {
		if time.Since(start) > d+bustest.Promptly {
			t.Fatalf("sees %q, want %q", v.now(), want)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

const atOnce = time.Second

// stored waits until the registry keeps these instances: NATS passes a write on before it is
// stored, and an edge that starts later reads only stored writes.
func stored(t *testing.T, url string, instances ...string) {
	t.Helper()
	js := rawJetStream(t, url)
	bustest.Eventually(t, "the instances are stored", func() bool {
		kv, err := js.KeyValue(t.Context(), bus.RegistryBucket)
		if err != nil {
			return false
		}
		keys, err := kv.Keys(t.Context())
		return err == nil && !slices.ContainsFunc(instances, func(one string) bool { return !slices.Contains(keys, one) })
	})
}

// comesLate starts an edge that immediately sees the same as another one. If a busy machine delays
// a catalogue by two seconds, the edge sees that service later.
func comesLate(t *testing.T, url string, other *view) (late *view) {
	t.Helper()
	for range 5 {
		if late = watch(t, bustest.Connect(t, url)); late.now() == other.now() {
			return late
		}
	}
	t.Errorf("an edge that came late sees %q, the other %q", late.now(), other.now())
	return late
}

func TestRegistryFollowsOneService(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	v := watch(t, bustest.Connect(t, url))
	if v.now() != "" {
		t.Errorf("an empty bus shows %q", v.now())
	}
	a := announce(t, bustest.Connect(t, url), "text", "one", "1.0.0", catalogue("text", "split"))
	v.sees(t, "text 1.0.0 x1: split", atOnce)
	if err := a.Update(catalogue("text", "split", "join")); err != nil {
		t.Fatal(err)
	}
	v.sees(t, "text 1.0.0 x1: split join", atOnce)
	if err := a.Update(catalogue("text")); err != nil {
		t.Fatal(err)
	}
	v.sees(t, "text 1.0.0 x1: ", atOnce)
	a.Withdraw(t.Context())
	v.sees(t, "", atOnce)
	a.Withdraw(t.Context()) // repeating it does no harm
	want := []string{"text 1.0.0 x1: split", "text 1.0.0 x1: split join", "text 1.0.0 x1: ", ""}
	bustest.Eventually(t, "every change is told, and nothing else", func() bool {
		return fmt.Sprintf("%q", v.changes.all()) == fmt.Sprintf("%q", want)
	})
}

// If there are several instances, the catalogue of the most recently started one counts, in
// whatever order they are heard; the others count as instances.
func TestRegistryNewestInstanceWins(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	early := watch(t, bustest.Connect(t, url))
	conn := bustest.Connect(t, url)
	announce(t, conn, "text", "one", "1.0.0", catalogue("text", "a"))
	early.sees(t, "text 1.0.0 x1: a", atOnce)
	second := announce(t, conn, "text", "two", "1.0.0", catalogue("text", "a"))
	early.sees(t, "text 1.0.0 x2: a", atOnce)
	third := announce(t, conn, "text", "three", "2.0.0", catalogue("text", "a", "b"))
	early.sees(t, "text 2.0.0 x3: a b", atOnce)
	if err := second.Update(catalogue("text", "old")); err != nil { // not the newest
		t.Fatal(err)
	}
	announce(t, conn, "audit", "x", "0.1.0", catalogue("audit", "log"))
	early.sees(t, "audit 0.1.0 x1: log; text 2.0.0 x3: a b", atOnce)
	stored(t, url, "text.one", "text.two", "text.three", "audit.x")
	late := comesLate(t, url, early)
	third.Withdraw(t.Context())
	for _, v := range []*view{early, late} {
		v.sees(t, "audit 0.1.0 x1: log; text 1.0.0 x2: old", atOnce)
	}
}

// An instance that is killed is forgotten, and only that one.
func TestRegistryForgetsKilledInstance(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	v := watch(t, bustest.Connect(t, url))
	dying := bustest.Connect(t, url)
	announce(t, bustest.Connect(t, url), "text", "stays", "1.0.0", catalogue("text", "a"))
	announce(t, dying, "text", "dies", "1.0.0", catalogue("text", "a"))
	announce(t, dying, "gone", "dies", "1.0.0", catalogue("gone", "g"))
	v.sees(t, "gone 1.0.0 x1: g; text 1.0.0 x2: a", atOnce)
	start := time.Now()
	dying.Close()
	v.sees(t, "text 1.0.0 x1: a", 20*time.Second)
	t.Logf("forgotten after %v", time.Since(start).Round(time.Millisecond))
}

// Neither the absence of the bus nor its return makes a service disappear or
// change.
func TestRegistrySurvivesOutage(t *testing.T) {
	t.Parallel()
	ns := bustest.Start(t, bustest.Config{})
	edge := bustest.Connect(t, ns.URL)
	v := watch(t, edge)
	conn := bustest.Connect(t, ns.URL)
	a := announce(t, conn, "text", "one", "1.0.0", catalogue("text", "a"))
	v.sees(t, "text 1.0.0 x1: a", atOnce)
	told := len(v.changes.all())
	ns.Stop()
	bustest.Eventually(t, "the loss is noticed", func() bool { return !edge.Connected() && !conn.Connected() })
	if v.now() != "text 1.0.0 x1: a" {
		t.Errorf("without bus: %q", v.now())
	}
	if err := a.Update(catalogue("text", "a", "b")); err != nil { // while away
		t.Fatal(err)
	}
	ns.Restart()
	v.sees(t, "text 1.0.0 x1: a b", 5*time.Second)
	fresh := watch(t, bustest.Connect(t, ns.URL))
	fresh.sees(t, "text 1.0.0 x1: a b", 5*time.Second)
	if changes := v.changes.all()[told:]; len(changes) != 1 {
		t.Errorf("told %q", changes)
	}
}

// The server may also come back without its data.
func TestRegistrySurvivesLossOfData(t *testing.T) {
	t.Parallel()
	ns := bustest.Start(t, bustest.Config{})
	edge := bustest.Connect(t, ns.URL)
	v := watch(t, edge)
	conn := bustest.Connect(t, ns.URL)
	announce(t, conn, "text", "one", "1.0.0", catalogue("text", "a"))
	v.sees(t, "text 1.0.0 x1: a", atOnce)
	ns.Stop()
	ns.Lose()
	ns.Restart()
	bustest.Eventually(t, "both are back", func() bool { return edge.Connected() && conn.Connected() })
	if _, err := storage.Ensure(within(t, bustest.Patience), edge, storage.Auto); err != nil {
		t.Fatal(err)
	}
	fresh := watch(t, bustest.Connect(t, ns.URL))
	fresh.sees(t, "text 1.0.0 x1: a", 8*time.Second)
	if v.now() != fresh.now() {
		t.Errorf("the old edge sees %q", v.now())
	}
}

// An entry counts only if it agrees with its key, and never with another service's catalogue.
func TestRegistryIgnoresForgery(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	v := watch(t, bustest.Connect(t, url))
	announce(t, bustest.Connect(t, url), "text", "one", "1.0.0", catalogue("text", "a"))
	v.sees(t, "text 1.0.0 x1: a", atOnce)
	digest := v.Services()[0].Digest
	nc := raw(t, url)
	future := uint64(time.Now().Add(time.Hour).UnixNano())
	for key, ann := range map[string]*busv1.Announcement{
		"evil.one": {Service: "text", Instance: "two", Version: "9.9.9", StartedUnixNano: future, CatalogueDigest: digest},
		"text.two": {Service: "text", Instance: "one", Version: "9.9.9", StartedUnixNano: future, CatalogueDigest: digest},
		"te.xt":    {Service: "text", Instance: "one", Version: "9.9.9", StartedUnixNano: future, CatalogueDigest: digest},
		"a.b.c":    {Service: "a.b", Instance: "c", Version: "9.9.9", CatalogueDigest: digest},
		"evil.two": {Service: "evil", Instance: "two", Version: "9.9.9", CatalogueDigest: digest}, // no such catalogue of evil
	} {
		data, err := proto.Marshal(ann)
		if err != nil {
			t.Fatal(err)
		}
		if err := nc.Publish("$KV.registry."+key, data); err != nil {
			t.Fatal(err)
		}
	}
	for _, data := range []string{"", "garbage", "\xff\xff"} {
		if err := nc.Publish("$KV.registry.text.junk", []byte(data)); err != nil {
			t.Fatal(err)
		}
	}
	foreign, err := proto.Marshal(catalogue("text", "stolen"))
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Publish("$KV.catalogue.evil."+digest, foreign); err != nil {
		t.Fatal(err)
	}
	announce(t, bustest.Connect(t, url), "zoo", "z", "1.0.0", catalogue("zoo", "z")) // heard after all that
	v.sees(t, "text 1.0.0 x1: a; zoo 1.0.0 x1: z", atOnce)
	stored(t, url, "text.one", "zoo.z")
	comesLate(t, url, v)
}

// Catalogues that no instance has are searched for repeatedly, and cause only an occasional log
// line.
func TestMissingCataloguesDoNotFillTheLog(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	var log bustest.Log
	bustest.Connect(t, url)
	conn, err := bus.Connect(t.Context(), bus.Config{URL: url, Name: "edge", Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	v := watch(t, conn)
	nc := raw(t, url)
	asked := make(chan *nats.Msg, 100)
	if _, err := nc.ChanSubscribe(subject.Catalogue("evil", "*"), asked); err != nil {
		t.Fatal(err)
	}
	const digests = 12
	for i := range digests {
		digest := fmt.Sprintf("%064x", i)
		data, err := proto.Marshal(&busv1.Announcement{Service: "evil", Instance: "one", Version: "9.9.9", StartedUnixNano: uint64(i + 1), CatalogueDigest: digest})
		if err != nil {
			t.Fatal(err)
		}
		if err := nc.Publish("$KV.registry.evil.one", data); err != nil {
			t.Fatal(err)
		}
		for wanted := false; !wanted; {
			select {
			case m := <-asked:
				wanted = strings.HasSuffix(m.Subject, digest)
			case <-time.After(bustest.Patience):
				t.Fatalf("nobody asks for catalogue %d", i)
			}
		}
	}
	announce(t, bustest.Connect(t, url), "zoo", "z", "1.0.0", catalogue("zoo", "z"))
	v.sees(t, "zoo 1.0.0 x1: z", atOnce)
	if n := strings.Count(log.String(), "catalogues not read yet"); n == 0 || n > digests/2 {
		t.Errorf("%d warnings of %d catalogues: %s", n, digests, &log)
	}
}

func TestAnnounceRefusesWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	conn := bustest.Connect(t, bustest.Server(t))
	big := &busv1.Catalogue{Service: "text", Tools: []*busv1.Tool{{Name: "a", Json: make([]byte, 1<<20)}}}
	if a, err := registry.Announce(conn, "text", "one", "1.0.0", big); err == nil || !strings.Contains(err.Error(), "split") {
		t.Fatalf("announced %v: %v", a, err)
	}
	a := announce(t, conn, "text", "one", "1.0.0", catalogue("text", "a"))
	if err := a.Update(big); err == nil {
		t.Error("updated")
	}
	v := watch(t, conn)
	v.sees(t, "text 1.0.0 x1: a", atOnce)
}

// A large catalogue, close to the limit of one message, arrives.
func TestRegistryCarriesLargeCatalogue(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	v := watch(t, bustest.Connect(t, url))
	c := &busv1.Catalogue{Service: "text", Tools: []*busv1.Tool{{Name: "a", Json: make([]byte, 1000<<10)}}}
	announce(t, bustest.Connect(t, url), "text", "one", "1.0.0", c)
	v.sees(t, "text 1.0.0 x1: a", atOnce)
	if got := v.Services()[0].Catalogue; !proto.Equal(got, c) {
		t.Error("the catalogue changed on the way")
	}
}

// Sixty services with three instances each, all at once.
func TestRegistryOfManyServices(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	v := watch(t, bustest.Connect(t, url))
	conn := bustest.Connect(t, url)
	var all []string
	for i := range 60 {
		for j := range 3 {
			name := fmt.Sprintf("s%02d", i)
			all = append(all, fmt.Sprint(name, ".", j))
			announce(t, conn, name, fmt.Sprint(j), "1.0.0", catalogue(name, "t"))
		}
	}
	whole := func(services []registry.Service) bool {
		n := 0
		for _, s := range services {
			n += len(s.Instances)
		}
		return len(services) == 60 && n == 180
	}
	bustest.Eventually(t, "all are seen", func() bool { return whole(v.Services()) })
	stored(t, url, all...)
	comesLate(t, url, v)
}

// Among instances of one version, the catalogue that changed last is served; a newer version is
// served whatever older ones do.
func TestRegistryYoungestCatalogueWins(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	v := watch(t, bustest.Connect(t, url))
	conn := bustest.Connect(t, url)
	first := announce(t, conn, "text", "one", "1.0.0", catalogue("text", "a"))
	announce(t, conn, "text", "two", "1.0.0", catalogue("text", "a"))
	v.sees(t, "text 1.0.0 x2: a", atOnce)
	if err := first.Update(catalogue("text", "a", "b")); err != nil {
		t.Fatal(err)
	}
	v.sees(t, "text 1.0.0 x2: a b", atOnce)
	announce(t, conn, "text", "three", "2.0.0", catalogue("text", "c"))
	v.sees(t, "text 2.0.0 x3: c", atOnce)
}
