// Package testservice holds the services that tests of the whole system call: one
// with a tool for every way a call can go, and one with the tools of the documents
// that the product was asked for in.
package testservice

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/go-json-experiment/json"

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
	// keyed says under which key the ledger counts the call, and has a secret that
	// no trail may keep.
	keyed struct {
		Key      string `json:"key"`
		Password string `json:"password,omitzero"`
	}
	anyKey struct {
		Key      string `json:"key,omitzero"`
		Password string `json:"password,omitzero"`
		Value    string `json:"value,omitzero"`
		Bytes    int    `json:"bytes,omitzero"`
	}
	runs struct {
		Runs int `json:"runs"`
	}
	structured struct {
		Said string `json:"said"`
		N    int    `json:"n"`
	}
	refusal struct {
		Key      string `json:"key"`
		Reason   string `json:"reason"`
		Executed string `json:"executed"`
	}
	slow struct {
		Key   string `json:"key,omitzero"`
		Steps int    `json:"steps,omitzero"`
		// Millis is how long the whole call takes.
		Millis int `json:"ms"`
	}
	nothing struct{}
)

// ShortTimeout is the time limit of the tool "stuck": much more than a call needs to get there,
// for one without time does not begin.
const ShortTimeout = 4 * time.Second

// regionSchema mirrors parameters into headers.
const regionSchema = `{"type":"object","properties":{
	"key":{"type":"string"},
	"region":{"type":"string","x-mcp-header":"Region"},
	"shard":{"type":"integer","x-mcp-header":"Shard"},
	"dry":{"type":"boolean","x-mcp-header":"Dry-Run"},
	"inner":{"type":"object","properties":{"zone":{"type":"string","x-mcp-header":"Zone"}}}
},"required":["key"]}`

// Plain is the handler of a tool that answers Done.
func Plain(ledger *Ledger) func(context.Context, *service.Call, keyed) (*service.Result, error) {
	return func(_ context.Context, _ *service.Call, in keyed) (*service.Result, error) {
		ledger.Add(in.Key)
		return text(Done), nil
	}
}

// Done is the answer of plain, look and everything that Plain serves.
const Done = "done\nü"

func text(text string) *service.Result {
	return &service.Result{Content: []mcp.Content{mcp.Text(text)}}
}

// New makes the service "testservice".
func New(ledger *Ledger, opts ...service.Option) *service.Service {
	s := service.New("testservice", append(opts, service.WithVersion("1.0.0"))...)
	addResults(s, ledger)
	addEnds(s, ledger)
	addNotifying(s, ledger)
	addAsking(s, ledger)
	addLoose(s)
	return s
}

// addResults adds tools that answer.
func addResults(s *service.Service, ledger *Ledger) {
	service.AddTool(s, service.Tool{Name: "echo", ReadOnly: true}, func(_ context.Context, _ *service.Call, in value) (value, error) {
		return in, nil
	})
	service.AddTool(s, service.Tool{Name: "raw", ReadOnly: true, InputSchema: []byte(`{"type":"object"}`)},
		func(_ context.Context, _ *service.Call, in []byte) (*service.Result, error) {
			return text(string(in)), nil
		})
	service.AddTool(s, service.Tool{Name: "plain"}, Plain(ledger))
	service.AddTool(s, service.Tool{Name: "look", ReadOnly: true}, Plain(ledger))
	count := func(_ context.Context, _ *service.Call, in keyed) (runs, error) { return runs{ledger.Add(in.Key)}, nil }
	service.AddTool(s, service.Tool{Name: "append"}, count)
	service.AddTool(s, service.Tool{Name: "approved", RequiresUserApproval: true}, count)
	service.AddTool(s, service.Tool{Name: "structured"}, func(_ context.Context, _ *service.Call, in keyed) (structured, error) {
		ledger.Add(in.Key)
		return structured{"done", 1<<53 + 1}, nil
	})
	service.AddTool(s, service.Tool{Name: "big"}, func(_ context.Context, _ *service.Call, in anyKey) (*service.Result, error) {
		ledger.Add(in.Key)
		return text(strings.Repeat("x", in.Bytes)), nil
	})
	service.AddTool(s, service.Tool{Name: "region", InputSchema: []byte(regionSchema)},
		func(_ context.Context, _ *service.Call, in []byte) (*service.Result, error) {
			ledger.Add(keyOf(in))
			return text("done"), nil
		})
}

// addEnds adds tools that end in another way.
func addEnds(s *service.Service, ledger *Ledger) {
	service.AddTool(s, service.Tool{Name: "fail"}, func(_ context.Context, _ *service.Call, in anyKey) (value, error) {
		ledger.Add(in.Key)
		return value{}, service.Errorf("failed on purpose: %s", in.Value)
	})
	service.AddTool(s, service.Tool{Name: "panic"}, func(_ context.Context, _ *service.Call, in anyKey) (nothing, error) {
		ledger.Add(in.Key)
		panic("secret of the panic")
	})
	service.AddTool(s, service.Tool{Name: "defect"}, func(context.Context, *service.Call, nothing) (nothing, error) {
		return nothing{}, errors.New("secret of the defect")
	})
	service.AddTool(s, service.Tool{Name: "stuck", Timeout: ShortTimeout}, func(ctx context.Context, _ *service.Call, in anyKey) (nothing, error) {
		ledger.Add(in.Key)
		<-ctx.Done()
		return nothing{}, ctx.Err()
	})
	// refuse ends as it is told.
	service.AddTool(s, service.Tool{Name: "refuse"}, func(_ context.Context, _ *service.Call, in refusal) (nothing, error) {
		e := fault.New(fault.Reason(in.Reason), "refused as told").Ran(fault.Executed(in.Executed)).With([]byte(`{"approval":"A1","version":7}`))
		e.RetryAfter = 2500 * time.Millisecond
		return nothing{}, e
	})
}

// addNotifying adds tools that say something before they answer.
func addNotifying(s *service.Service, ledger *Ledger) {
	service.AddTool(s, service.Tool{Name: "repeat", ReadOnly: true}, func(_ context.Context, call *service.Call, in value) (value, error) {
		call.Progress(1, 2, in.Value)
		call.Log("info", "testservice", in.Value)
		call.Progress(2, 2, in.Value)
		return in, nil
	})
	service.AddTool(s, service.Tool{Name: "progress"}, func(_ context.Context, call *service.Call, _ nothing) (nothing, error) {
		for _, done := range []float64{1, 2, 2, 1, 3} { // not more than before is not sent
			call.Progress(done, 3, fmt.Sprintf("step %v", done))
		}
		return nothing{}, nil
	})
	service.AddTool(s, service.Tool{Name: "log"}, func(_ context.Context, call *service.Call, _ nothing) (nothing, error) {
		for _, level := range mcp.LogLevels {
			call.Log(level, "testservice", "at "+level)
		}
		return nothing{}, nil
	})
	service.AddTool(s, service.Tool{Name: "slow"}, func(ctx context.Context, call *service.Call, in slow) (runs, error) {
		return slowly(ctx, call, in, ledger)
	})
	service.AddTool(s, service.Tool{Name: "job", Task: service.TaskRequired}, job)
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

func keyOf(arguments []byte) string {
	var in struct {
		Key string `json:"key"`
	}
	_ = json.Unmarshal(arguments, &in)
	return in.Key
}
