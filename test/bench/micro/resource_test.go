package micro

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/database"
	"github.com/busbar-mcp/busbar/libs/database/databasetest"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/resource"
	"github.com/busbar-mcp/busbar/services/resource/store"
	"github.com/busbar-mcp/busbar/services/resource/store/table"
)

// writers is how many connections, and as many callers, a database has.
const writers = 16

// BenchmarkResources is reading and writing of resources of 1 KiB on Postgres
// that syncs its commits: the store alone, and the service over the bus. Beside
// it stands what pgbench makes of the same server in the same run: -S reads a
// row, -N updates one, reads it and inserts another in a transaction, as an
// update of the store does.
func BenchmarkResources(b *testing.B) {
	server := databasetest.Own(b, "fsync=on", "shared_buffers=256MB")
	url := server.URL() + "&pool_max_conns=" + strconv.Itoa(writers)
	s, err := table.Open(b.Context(), database.Config{URL: url}, table.Limits{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	quiet := slog.New(slog.DiscardHandler)
	r, err := resource.New(b.Context(), resource.Env{DataEnv: service.DataEnv{Env: service.Env{Log: quiet}, DatabaseURL: url}})
	if err != nil {
		b.Fatal(err)
	}
	nats := bustest.Server(b)
	running, err := r.Start(b.Context(), bustest.Connect(b, nats))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = running.Stop(context.Background()) }()
	caller, err := bus.NewCaller(bustest.Connect(b, nats))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = caller.Close() }()

	const n = 1000
	text := strings.Repeat("x", 1024)
	uri := func(i int64) string { return "bench:" + strconv.FormatInt(i%n, 10) }
	content := store.Content{Bytes: []byte(text)}
	for i := range int64(n) {
		if _, err := s.Create(b.Context(), store.Resource{URI: uri(i), Name: "n"}, content, database.Key{}); err != nil {
			b.Fatal(err)
		}
	}
	call := func(method, name, arguments string) error {
		_, err := caller.Call(b.Context(), "resource", &busv1.Request{Method: method, Name: name, Arguments: []byte(arguments)}, nil)
		return err
	}
	ways := []struct {
		name string
		do   func(i int64) error
	}{
		{"store-reads/s", func(i int64) error { _, _, err := s.Read(b.Context(), "", uri(i), nil); return err }},
		{"service-reads/s", func(i int64) error { return call("resources/read", uri(i), "") }},
		{"store-writes/s", func(i int64) error {
			_, err := s.Update(b.Context(), "", uri(i), 0, store.Change{Content: &content}, database.Key{})
			return err
		}},
		{"service-writes/s", func(i int64) error {
			return call("tools/call", "update_resource", `{"uri":"`+uri(i)+`","text":"`+text+`"}`)
		}},
	}
	_, missing := os.Stat(server.Tool("pgbench"))
	if missing == nil {
		if out, err := exec.Command(server.Tool("pgbench"), "-i", "-q", "-s", "10", server.URL()).CombinedOutput(); err != nil {
			b.Fatalf("pgbench -i: %v\n%s", err, out)
		}
	}
	for b.Loop() {
		// In turns, so that a noisy machine is noisy for all.
		rates := map[string][]float64{}
		for range 5 {
			for _, w := range ways {
				rates[w.name] = append(rates[w.name], rateOf(b, time.Second, w.do))
			}
			for name, script := range map[string]string{"pgbench-reads/s": "-S", "pgbench-writes/s": "-N"} {
				if missing == nil {
					rates[name] = append(rates[name], pgbench(b, server, script))
				}
			}
		}
		for name, all := range rates {
			b.ReportMetric(median(all), name)
		}
	}
}

// rateOf is how often writers do something in a second.
func rateOf(b *testing.B, length time.Duration, do func(int64) error) float64 {
	var count atomic.Int64
	var wg sync.WaitGroup
	begin := time.Now()
	for range writers {
		wg.Go(func() {
			for time.Since(begin) < length {
				if err := do(count.Add(1)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return float64(count.Load()) / time.Since(begin).Seconds()
}

var tps = regexp.MustCompile(`tps = ([0-9.]+)`)

func pgbench(b *testing.B, server *databasetest.Server, script string) float64 {
	b.Helper()
	out, err := exec.Command(server.Tool("pgbench"), script, "-M", "prepared", "-c", strconv.Itoa(writers), "-j", "2", "-T", "1", server.URL()).CombinedOutput()
	found := tps.FindSubmatch(out)
	if err != nil || found == nil {
		b.Fatalf("pgbench %s: %v\n%s", script, err, out)
	}
	rate, err := strconv.ParseFloat(string(found[1]), 64)
	if err != nil {
		b.Fatal(err)
	}
	return rate
}
