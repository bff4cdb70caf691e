// Package testservice holds the services that the end-to-end tests call: one
// with a tool for every way a call can go, and one with the tools of the
// documents the product was asked for in.
package testservice

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
)

// Ledger counts what ran, by the key each call carries.
type Ledger struct {
	mu   sync.Mutex
	runs map[string]int
}

// Add records one execution.
func (l *Ledger) Add(key string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.runs == nil {
		l.runs = map[string]int{}
	}
	l.runs[key]++
	return l.runs[key]
}

// Runs is how often the key was executed.
func (l *Ledger) Runs(key string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.runs[key]
}

type (
	value struct {
		Value string `json:"value"`
	}
	key struct {
		Key string `json:"key"`
	}
	runs struct {
		Runs int `json:"runs"`
	}
	slow struct {
		Key   string `json:"key,omitzero"`
		Steps int    `json:"steps,omitzero"`
		// Millis is how long the whole call takes.
		Millis int `json:"ms"`
	}
	size struct {
		Bytes int `json:"bytes"`
	}
	nothing struct{}
	form    struct {
		Name string `json:"name"`
	}
)

// ShortTimeout is the time limit of the tool "stuck".
const ShortTimeout = 400 * time.Millisecond

// regionSchema mirrors parameters into headers.
const regionSchema = `{"type":"object","properties":{
	"key":{"type":"string"},
	"region":{"type":"string","x-mcp-header":"Region"},
	"shard":{"type":"integer","x-mcp-header":"Shard"},
	"dry":{"type":"boolean","x-mcp-header":"Dry-Run"},
	"inner":{"type":"object","properties":{"zone":{"type":"string","x-mcp-header":"Zone"}}}
},"required":["key"]}`

// askSchema is the form that the tool "ask" shows.
var askSchema = map[string]any{
	"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}}, "required": []string{"name"},
}

// New makes the service "testservice".
func New(ledger *Ledger) *service.Service {
	s := service.New("testservice", service.WithVersion("1.0.0"))
	service.AddTool(s, service.Tool{Name: "echo", ReadOnly: true}, func(_ context.Context, _ *service.Call, in value) (value, error) {
		return in, nil
	})
	service.AddTool(s, service.Tool{Name: "repeat", ReadOnly: true}, func(_ context.Context, call *service.Call, in value) (value, error) {
		call.Progress(1, 2, in.Value)
		call.Log("info", "testservice", in.Value)
		call.Progress(2, 2, in.Value)
		return in, nil
	})
	service.AddTool(s, service.Tool{Name: "raw", ReadOnly: true, InputSchema: []byte(`{"type":"object"}`)},
		func(_ context.Context, _ *service.Call, in []byte) (*service.Result, error) {
			return &service.Result{Content: []mcp.Content{mcp.Text(string(in))}}, nil
		})
	addLoose(s)
	service.AddTool(s, service.Tool{Name: "append"}, func(_ context.Context, _ *service.Call, in key) (runs, error) {
		return runs{ledger.Add(in.Key)}, nil
	})
	// One that a person has to agree to.
	service.AddTool(s, service.Tool{Name: "approved", RequiresUserApproval: true}, func(_ context.Context, _ *service.Call, in key) (runs, error) {
		return runs{ledger.Add(in.Key)}, nil
	})
	service.AddTool(s, service.Tool{Name: "slow"}, func(ctx context.Context, call *service.Call, in slow) (runs, error) {
		return slowly(ctx, call, in, ledger)
	})
	service.AddTool(s, service.Tool{Name: "stuck", Timeout: ShortTimeout}, func(ctx context.Context, _ *service.Call, _ nothing) (nothing, error) {
		<-ctx.Done()
		return nothing{}, ctx.Err()
	})
	service.AddTool(s, service.Tool{Name: "log"}, func(_ context.Context, call *service.Call, _ nothing) (nothing, error) {
		for _, level := range mcp.LogLevels {
			call.Log(level, "testservice", "at "+level)
		}
		return nothing{}, nil
	})
	service.AddTool(s, service.Tool{Name: "panic"}, func(context.Context, *service.Call, nothing) (nothing, error) {
		panic("secret of the panic")
	})
	service.AddTool(s, service.Tool{Name: "defect"}, func(context.Context, *service.Call, nothing) (nothing, error) {
		return nothing{}, errors.New("secret of the defect")
	})
	service.AddTool(s, service.Tool{Name: "fail"}, func(_ context.Context, _ *service.Call, in value) (value, error) {
		return value{}, service.Errorf("failed on purpose: %s", in.Value)
	})
	service.AddTool(s, service.Tool{Name: "big", ReadOnly: true}, func(_ context.Context, _ *service.Call, in size) (*service.Result, error) {
		return &service.Result{Content: []mcp.Content{mcp.Text(strings.Repeat("x", in.Bytes))}}, nil
	})
	service.AddTool(s, service.Tool{Name: "ask"}, ask)
	service.AddTool(s, service.Tool{Name: "job", Task: service.TaskRequired}, job)
	service.AddTool(s, service.Tool{Name: "region", InputSchema: []byte(regionSchema)},
		func(_ context.Context, _ *service.Call, in []byte) (*service.Result, error) {
			ledger.Add(keyOf(in))
			return &service.Result{Content: []mcp.Content{mcp.Text("done")}}, nil
		})
	return s
}

func slowly(ctx context.Context, call *service.Call, in slow, ledger *Ledger) (runs, error) {
	steps := max(in.Steps, 1)
	tick := time.NewTicker(max(time.Duration(in.Millis)*time.Millisecond/time.Duration(steps), time.Millisecond))
	defer tick.Stop()
	ledger.Add(in.Key + " started")
	for i := range steps {
		select {
		case <-tick.C:
			call.Progress(float64(i+1), float64(steps), fmt.Sprintf("step %d", i+1))
		case <-ctx.Done():
			ledger.Add(in.Key + " cancelled")
			return runs{}, ctx.Err()
		}
	}
	return runs{ledger.Add(in.Key)}, nil
}

// job says which process carries it out, at once and at its end.
func job(ctx context.Context, call *service.Call, in slow) (value, error) {
	me := fmt.Sprintf("process %d", os.Getpid())
	call.Progress(0, 0, me)
	select {
	case <-time.After(time.Duration(in.Millis) * time.Millisecond):
		return value{me}, nil
	case <-ctx.Done():
		return value{}, ctx.Err()
	}
}

func ask(_ context.Context, call *service.Call, _ nothing) (value, error) {
	answers, err := call.Ask(service.Elicit("who", "Who are you?", askSchema))
	if err != nil {
		return value{}, err
	}
	var f form
	action, err := answers.Elicited("who", &f)
	if err != nil {
		return value{}, err
	}
	return value{action + " " + f.Name}, nil
}
