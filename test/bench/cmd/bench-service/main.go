// Command bench-service serves tools that cost nothing themselves, so that what is
// measured is the way to them and back.
package main

import (
	"context"
	"time"

	"github.com/busbar-mcp/busbar/libs/service"
)

type (
	text struct {
		Text string `json:"text"`
	}
	nothing struct{}
)

// env is how many calls run at once.
type env struct {
	service.Env
	Slots int `default:"64" env:"BUSBAR_BENCH_SLOTS" help:"How many calls run at once (default ${default})."`
}

func main() { service.Main("bench", build) }

func build(_ context.Context, env env) (*service.Service, error) {
	s := service.New("bench", service.WithVersion(env.Version), service.WithLogger(env.Log), service.WithConcurrency(env.Slots))
	service.AddTool(s, service.Tool{Name: "echo", ReadOnly: true}, func(_ context.Context, _ *service.Call, in text) (text, error) { return in, nil })
	service.AddTool(s, service.Tool{Name: "report", ReadOnly: true}, func(_ context.Context, call *service.Call, in text) (text, error) {
		for n := range 4 {
			call.Progress(float64(n+1), 4, "on its way")
		}
		return in, nil
	})
	service.AddTool(s, service.Tool{Name: "slow", ReadOnly: true}, func(ctx context.Context, _ *service.Call, _ nothing) (text, error) {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
		}
		return text{"done"}, ctx.Err()
	})
	return s, nil
}
