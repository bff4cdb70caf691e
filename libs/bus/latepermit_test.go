package bus_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/internal/flow"
	"github.com/busbar-mcp/busbar/libs/bustest"
)

// stoppableService is the environment variable with which the test binary starts itself as an
// instance of "svc".
const stoppableService = "BUSBAR_TEST_SERVICE"

// serveUntilKilled is that instance.
func serveUntilKilled(url string) {
	conn, err := bus.Connect(context.Background(), bus.Config{URL: url})
	if err != nil {
		fmt.Println("connect:", err)
		return
	}
	if _, err = bus.Serve(context.Background(), conn, bus.ServerConfig{Service: "svc", Handler: quickOrSlow}); err != nil {
		fmt.Println("serve:", err)
		return
	}
	select {}
}

// quickOrSlow reports that "slow" has begun, and ends it after a second of the process's own time.
func quickOrSlow(ctx context.Context, req *busv1.Request, out *bus.Responder) (proto.Message, error) {
	for i := 0; req.Name == "slow" && i < 20; i++ {
		out.Progress(&busv1.Progress{Progress: float64(i)})
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return &busv1.Result{Json: []byte(`{}`)}, nil
}

// An instance is suspended after it asked for a permit. When it continues, it finds a permit whose
// caller has given up meanwhile. That permit does not count.
func TestF2LatePermits(t *testing.T) {
	t.Parallel()
	for name, stopped := range map[string]time.Duration{
		"the caller counts it as lost": 2 * flow.MaxSilence,
		"its own time is over as well": 5 * time.Second,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := bustest.Server(t)
			process, _ := stoppable(t, url)
			nc := raw(t, url)
			replies := make(chan *nats.Msg, 256)
			if _, err := nc.ChanSubscribe("mcp.reply.svc.edge.r", replies); err != nil {
				t.Fatal(err)
			}
			req := effect("x")
			req.Id, req.RemainingNano = "one", uint64(time.Minute)
			data, err := proto.Marshal(req)
			if err == nil {
				err = nc.PublishRequest("mcp.call.svc.tools.call", "mcp.reply.svc.edge.r", data)
			}
			if err != nil {
				t.Fatal(err)
			}
			next := func() *busv1.Frame {
				f := &busv1.Frame{}
				if err := proto.Unmarshal(await(t, "a frame", replies).Data, f); err != nil {
					t.Fatal(err)
				}
				return f
			}
			asked := next()
			for asked.GetReady() == nil {
				asked = next()
			}
			stop(t, process)
			if err := nc.Flush(); err != nil { // its earlier messages have arrived
				t.Fatal(err)
			}
			for len(replies) > 0 {
				if f := next(); f.GetReady() != nil {
					asked = f
				}
			}
			turn := asked.GetReady().Turn
			permit(t, nc, asked.Instance, turn)
			<-time.After(stopped)
			signal(t, process, syscall.SIGCONT)
			again := 0
			for {
				f := next()
				switch {
				case f.GetResult() != nil:
					t.Fatalf("it ran with a permit for turn %d that was %v old", turn, stopped)
				case f.GetError() != nil:
					if f.GetError().Executed != busv1.Executed_EXECUTED_NO {
						t.Errorf("ended with %v", f.GetError())
					}
					return
				case f.GetReady() != nil && f.GetReady().Turn > turn:
					// It asks again twice, because its permit does not count. A caller that is
					// still waiting permits it, and the call runs.
					if again++; again < 3 {
						continue
					}
					permit(t, nc, f.Instance, f.GetReady().Turn)
					for f.GetResult() == nil && f.GetError() == nil {
						f = next()
					}
					if f.GetResult() == nil && f.GetError().Executed != busv1.Executed_EXECUTED_NO {
						t.Errorf("permitted again, it ended with %v", f.GetError())
					}
					return
				}
			}
		})
	}
}

func permit(t *testing.T, nc *nats.Conn, instance string, turn uint32) {
	t.Helper()
	data, err := proto.Marshal(&busv1.Permit{Id: "one", Granted: true, Turn: turn})
	if err == nil {
		err = nc.Publish("mcp.ctl.svc.permit."+instance, data)
	}
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
}
