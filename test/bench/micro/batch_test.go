package micro

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/edge"
	"github.com/busbar-mcp/busbar/services/edge/door"
)

// Of BenchmarkBatch.
const (
	batchCalls  = 1000
	batchTime   = 20 * time.Millisecond // of one call
	instances   = 4
	slots       = 64 // of each instance
	batchSerial = 50 // calls made one after another
)

// BenchmarkBatch is a batch over REST of calls that only take time, beside the
// ideal, calls x time / slots, and beside the same calls one after another.
func BenchmarkBatch(b *testing.B) {
	url := bustest.Server(b)
	quiet := slog.New(slog.DiscardHandler)
	connect := func(name string) *bus.Conn {
		conn, err := bus.Connect(b.Context(), bus.Config{URL: url, Name: name, Logger: quiet})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(conn.Close)
		return conn
	}
	for range instances {
		s := service.New("slow", service.WithLogger(quiet), service.WithConcurrency(slots))
		service.AddTool(s, service.Tool{Name: "slow", ReadOnly: true}, func(ctx context.Context, _ *service.Call, _ struct{}) (out, error) {
			select {
			case <-time.After(batchTime):
			case <-ctx.Done():
			}
			return out{"done"}, ctx.Err()
		})
		running, err := s.Start(b.Context(), connect("slow"))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = running.Stop(context.Background()) })
	}
	e, err := edge.New(b.Context(), connect("edge"), edge.Config{Version: "0.0.0", Logger: quiet})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(e.Close)
	if err := e.Await(b.Context(), "slow"); err != nil {
		b.Fatal(err)
	}
	srv := httptest.NewServer(e.Handler(door.Guard{Loopback: true}))
	b.Cleanup(srv.Close)
	batch := func(n, parallel int) time.Duration {
		calls := strings.TrimSuffix(strings.Repeat(`{"name":"slow"},`, n), ",")
		begun := time.Now()
		resp, err := http.Post(srv.URL+"/tools:batch", "application/json", strings.NewReader(fmt.Sprintf(`{"parallel":%d,"calls":[%s]}`, parallel, calls)))
		if err != nil {
			b.Fatal(err)
		}
		answer, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		took := time.Since(begun)
		if done := strings.Count(string(answer), `"isError":false`); err != nil || done != n {
			b.Fatalf("%d of %d calls done: %v %.300s", done, n, err, answer)
		}
		return took
	}
	ideal := batchTime * batchCalls / (instances * slots)
	batch(batchCalls, instances*slots) // warm
	for _, parallel := range []int{256, 384, 512, 1024} {
		b.Run("parallel="+strconv.Itoa(parallel), func(b *testing.B) {
			for b.Loop() {
				one := batch(batchSerial, 1) / batchSerial
				var took []float64
				for range 15 {
					took = append(took, batch(batchCalls, parallel).Seconds())
				}
				b.ReportMetric(ideal.Seconds()/median(took), "of-ideal")
				b.ReportMetric(one.Seconds()*batchCalls/median(took), "x-serial")
			}
		})
	}
}
