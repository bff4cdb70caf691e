// Package batch is the Busbar service of the tool batch, by which a model makes many
// calls in one. People and programs can send batches to the doors themselves, which
// stream results as they come; a model has only tools.
//
// It is an ordinary service: it calls tools on behalf of its caller
// (service.Call.CallTool), as any other service may. Everything is in batch.go.
package batch

import (
	"context"
	_ "embed"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/sourcegraph/conc/pool"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/service"
)

const (
	name = "batch"
	//limit:call concurrent calls within one call of `batch`; `parallel` may ask for 64 | more wait
	defaultParallel = 16
	//limit:time a call of the tool `batch` | `deadline_exceeded`
	timeout = 5 * time.Minute
	// maxResults bounds the results together, bytes. They travel twice, as structured
	// content and as text, in a result of at most 16 MiB.
	//limit:call all results of one call of `batch` | `result_too_large` for the rest
	maxResults = 6 << 20
)

//go:embed schema/batch.input.json
var inputSchema []byte

// In is the input of batch.
type In struct {
	Calls    []Item `json:"calls"`
	Parallel int    `json:"parallel,omitzero"`
}

// Item is one call.
type Item struct {
	Name           string         `json:"name"`
	Arguments      jsontext.Value `json:"arguments,omitzero"`
	IdempotencyKey string         `json:"idempotencyKey,omitzero"`
}

// Out is the output of batch.
type Out struct {
	Results   []Slot `json:"results" jsonschema:"What became of each call, in the order of calls"`
	Succeeded int    `json:"succeeded" jsonschema:"How many calls did what they should"`
	Failed    int    `json:"failed" jsonschema:"How many did not"`
}

// Slot is the outcome of one call: its result, or why it has no result.
type Slot struct {
	Name              string         `json:"name" jsonschema:"The tool"`
	IsError           bool           `json:"isError" jsonschema:"Whether it failed"`
	Content           jsontext.Value `json:"content,omitzero" jsonschema:"The content, where there is no structuredContent"`
	StructuredContent jsontext.Value `json:"structuredContent,omitzero" jsonschema:"The structured result"`
	Error             string         `json:"error,omitzero" jsonschema:"Why there is no result"`
	Reason            string         `json:"reason,omitzero" jsonschema:"Kind of the error, such as unknown_tool or rate_limited"`
	Executed          string         `json:"executed,omitzero" jsonschema:"Whether the call ran nevertheless: no, unknown or yes"`
	Next              string         `json:"next,omitzero" jsonschema:"What to do about it"`
	RetryAfterMS      int64          `json:"retryAfterMs,omitzero" jsonschema:"When to try again"`
	Approval          string         `json:"approval,omitzero" jsonschema:"The call waits for a person, who agrees under this id"`
}

// New makes the service "batch".
func New(_ context.Context, env service.Env) (*service.Service, error) {
	s := service.New(name, service.WithVersion(env.Version), service.WithLogger(env.Log), service.WithDescription("Many calls of tools in one"))
	service.AddTool(s, service.Tool{
		Name: name, Title: "Batch",
		Description: "Calls up to 100 tools concurrently and returns all results, in order. A call that fails fails alone. " +
			"Use it for calls that do not need each other's results. A batch cannot hold a batch, or a tool that asks the user for input.",
		Timeout: timeout, CallsTools: true, InputSchema: inputSchema,
	}, run)
	return s, nil
}

func run(ctx context.Context, call *service.Call, in In) (Out, error) {
	if in.Parallel == 0 {
		in.Parallel = defaultParallel
	}
	b := batch{call: call, out: Out{Results: make([]Slot, len(in.Calls))}, room: maxResults}
	p := pool.New().WithMaxGoroutines(in.Parallel)
	for i, item := range in.Calls {
		p.Go(func() { b.put(ctx, i, item) })
	}
	p.Wait()
	if err := ctx.Err(); err != nil {
		return Out{}, err
	}
	return b.out, nil
}

// batch is a batch in progress.
type batch struct {
	call *service.Call

	mu   sync.Mutex
	out  Out
	room int
	done int
}

func (b *batch) put(ctx context.Context, i int, item Item) {
	slot := b.carryOut(ctx, item)
	b.mu.Lock()
	defer b.mu.Unlock()
	if size := len(slot.Content) + len(slot.StructuredContent); size > b.room {
		slot = refused(item.Name, fault.New(fault.ResultTooLarge, "the results of this batch have more than %d MiB; call %s by itself", maxResults>>20, fault.Clip(item.Name)).Ran(fault.Yes))
	} else {
		b.room -= size
	}
	if slot.IsError {
		b.out.Failed++
	} else {
		b.out.Succeeded++
	}
	b.out.Results[i] = slot
	b.done++
	b.call.Progress(float64(b.done), float64(len(b.out.Results)), item.Name)
}

func (b *batch) carryOut(ctx context.Context, item Item) Slot {
	if item.Name == name {
		return refused(name, fault.New(fault.InvalidParams, "a batch cannot hold a batch"))
	}
	if err := ctx.Err(); err != nil {
		executed := fault.No
		if item.IdempotencyKey != "" { // nobody looks any more whether an earlier call with it ran
			executed = fault.Unknown
		}
		return refused(item.Name, fault.New(fault.Cancelled, "the batch ended before this call began").Ran(executed))
	}
	r, err := b.call.CallTool(ctx, service.ToolCall{Name: item.Name, Arguments: item.Arguments, IdempotencyKey: item.IdempotencyKey})
	if err != nil {
		return refused(item.Name, fault.From(err))
	}
	slot := Slot{Name: item.Name, IsError: r.IsError, StructuredContent: r.Structured}
	if r.Structured == nil {
		slot.Content = r.Content
	}
	return slot
}

// refused is the slot of a call without a result.
func refused(tool string, f *fault.Error) Slot {
	s := Slot{
		Name: tool, IsError: true, Error: f.Message, Reason: string(f.Reason), Executed: string(f.Executed), Next: f.Next,
		RetryAfterMS: f.RetryAfter.Milliseconds(),
	}
	if f.Reason == fault.ApprovalRequired {
		var held struct {
			Approval string `json:"approval"`
		}
		if json.Unmarshal(f.Data, &held) == nil {
			s.Approval = held.Approval
		}
	}
	return s
}
