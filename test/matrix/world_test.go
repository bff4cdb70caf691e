package matrix

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/edge"
)

// world is a bus with two instances of a service and two edges. It is one
// version's on one transport, so that changes reach no other cells.
type world struct {
	nats  string
	svc   *service.Service
	edges []*edge.Edge
	// held has a value for each call of hold that began, let for each whose
	// context ended.
	held, let chan struct{}
}

func newWorld(t *testing.T, transport string) *world {
	t.Helper()
	w := &world{nats: bustest.Server(t), held: make(chan struct{}, 1), let: make(chan struct{}, 1)}
	w.svc = w.service()
	for range 2 {
		running, err := w.svc.Start(soon(t), bustest.Connect(t, w.nats))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), answerTime)
			defer cancel()
			if err := running.Stop(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	if transport != stdioTransport {
		w.edges = []*edge.Edge{w.join(t), w.join(t)}
	}
	return w
}

// join adds an edge to the bus.
func (w *world) join(t *testing.T) *edge.Edge {
	t.Helper()
	ctx := soon(t)
	e, err := edge.New(ctx, bustest.Connect(t, w.nats), edge.Config{Version: "1", Logger: bustest.Logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	if err := e.Await(ctx, w.svc.Name()); err != nil {
		t.Fatal(err)
	}
	return e
}

type (
	nothing struct{}
	text    struct {
		Text string `json:"text"`
	}
)

// Resources that clients subscribe to.
const noteA, noteB = "note:///a", "note:///b"

// service has a tool for each feature.
func (w *world) service() *service.Service {
	s := service.New("matrix", service.WithVersion("1.0.0"), service.WithLogger(slog.New(slog.DiscardHandler)))
	service.AddTool(s, service.Tool{Name: "echo"}, func(_ context.Context, _ *service.Call, in text) (text, error) { return in, nil })
	service.AddTool(s, service.Tool{Name: "progress"}, func(_ context.Context, c *service.Call, _ nothing) (nothing, error) {
		for _, done := range []float64{1, 2, 2, 1, 3} { // not more than before is not sent
			c.Progress(done, 3, fmt.Sprintf("step %v", done))
		}
		return nothing{}, nil
	})
	service.AddTool(s, service.Tool{Name: "log"}, func(_ context.Context, c *service.Call, _ nothing) (nothing, error) {
		for _, level := range mcp.LogLevels {
			c.Log(level, "matrix", "at "+level)
		}
		return nothing{}, nil
	})
	service.AddTool(s, service.Tool{Name: "hold"}, func(ctx context.Context, _ *service.Call, _ nothing) (nothing, error) {
		w.held <- struct{}{}
		<-ctx.Done()
		w.let <- struct{}{}
		return nothing{}, ctx.Err()
	})
	addAsking(s)
	for _, uri := range []string{noteA, noteB} {
		s.AddResource(mcp.Resource{URI: uri, Name: uri}, func(context.Context, *service.Call, string, map[string]string) ([]mcp.ResourceContents, error) {
			return nil, nil
		})
	}
	return s
}

// addAsking adds a tool for each question that a server may ask, named for its
// key.
func addAsking(s *service.Service) {
	form := map[string]any{"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}}}
	hello := []mcp.PromptMessage{{Role: "user", Content: mcp.Text("Hello?")}}
	for _, q := range []struct {
		key      string
		question service.Question
		read     func(*service.Answers) (string, error)
	}{
		{"elicitation", service.Elicit("elicitation", "Who are you?", form), func(a *service.Answers) (string, error) {
			var in struct {
				Name string `json:"name"`
			}
			action, err := a.Elicited("elicitation", &in)
			return action + " " + in.Name, err
		}},
		{"sampling", service.Sample("sampling", service.Sampling{Messages: hello, MaxTokens: 10}), func(a *service.Answers) (string, error) {
			m, err := a.Sampled("sampling")
			if err != nil {
				return "", err
			}
			return m.Model + " " + m.Text(), nil
		}},
		{"roots", service.Roots("roots"), func(a *service.Answers) (string, error) {
			roots, err := a.Roots("roots")
			if err != nil || len(roots) != 1 {
				return fmt.Sprint(len(roots), " roots"), err
			}
			return roots[0].Name + " " + roots[0].URI, nil
		}},
	} {
		service.AddTool(s, service.Tool{Name: q.key}, func(_ context.Context, c *service.Call, _ nothing) (text, error) {
			answers, err := c.Ask(q.question)
			if err != nil {
				return text{}, err
			}
			said, err := q.read(answers)
			return text{said}, err
		})
	}
}

// roundRobin gives each TCP connection to the next of the addresses: a load
// balancer without stickiness.
func roundRobin(t *testing.T, addresses []string) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close()
		running.Wait()
	})
	running.Go(func() {
		for next := 0; ; next++ {
			client, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() { join(t, client, addresses[next%len(addresses)]) })
		}
	})
	return l.Addr().String()
}

// join copies both ways until either side ends.
func join(t *testing.T, client net.Conn, address string) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", address)
	if err != nil {
		t.Error(err)
		return
	}
	var copying sync.WaitGroup
	pipe := func(to, from net.Conn) {
		defer func() { _, _ = client.Close(), server.Close() }()
		_, _ = io.Copy(to, from)
	}
	copying.Go(func() { pipe(server, client) })
	pipe(client, server)
	copying.Wait()
}
