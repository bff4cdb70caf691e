// Command bench-service serves tools that cost nothing themselves, so that what is
// measured is the way to them and back.
package main

import (
	"cmp"
	"context"
	"os"
	"strings"
	"time"

	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
)

type (
	texts struct {
		Texts []string `json:"texts"`
	}
	size struct {
		Bytes int `json:"bytes"`
	}
	nothing struct{}
)

// env is how many calls run at once.
type env struct {
	service.Env
	Slots int `default:"64" env:"BUSBAR_BENCH_SLOTS" help:"How many calls run at once (default ${default})."`
}

// name of the service, with which its tools begin: there may be several.
var name = cmp.Or(os.Getenv("BUSBAR_BENCH_NAME"), "bench")

func main() { service.Main(name, build) }

func build(_ context.Context, env env) (*service.Service, error) {
	s := service.New(name, service.WithVersion(env.Version), service.WithLogger(env.Log), service.WithConcurrency(env.Slots))
	service.AddTool(s, service.Tool{Name: name + "_take", ReadOnly: true}, func(_ context.Context, _ *service.Call, in texts) (size, error) {
		n := 0
		for _, text := range in.Texts {
			n += len(text)
		}
		return size{n}, nil
	})
	service.AddTool(s, service.Tool{Name: name + "_give", ReadOnly: true}, func(_ context.Context, _ *service.Call, in size) (*service.Result, error) {
		return &service.Result{Content: []mcp.Content{mcp.Text(strings.Repeat("x", in.Bytes))}}, nil
	})
	service.AddTool(s, service.Tool{Name: name + "_report", ReadOnly: true}, func(_ context.Context, call *service.Call, _ nothing) (size, error) {
		for n := range 4 {
			call.Progress(float64(n+1), 4, "on its way")
		}
		return size{4}, nil
	})
	service.AddTool(s, service.Tool{Name: name + "_slow", ReadOnly: true}, func(ctx context.Context, _ *service.Call, _ nothing) (size, error) {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
		}
		return size{0}, ctx.Err()
	})
	return s, nil
}
