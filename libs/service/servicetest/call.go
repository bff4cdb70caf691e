package servicetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/schema"
)

// Result is the end of a call of a tool, with the notifications before it.
type Result struct {
	// Text is the text of all blocks of Content.
	Text string
	// Content is a JSON array.
	Content jsontext.Value
	// Structured is a JSON value; nil for none.
	Structured jsontext.Value
	// Meta is the result's _meta, a JSON object; nil for none.
	Meta jsontext.Value
	// IsError marks the tool's own failure: Text says what went wrong.
	IsError bool
	// Err is the reason why there is no result: a *fault.Error. It is nil if there is a result.
	Err error

	Progress []Progress
	Logs     []Log
	// Asked are the keys of the questions, in the order in which they were asked.
	Asked []string
}

// Progress is a report of a call.
type Progress struct {
	Done, Total float64
	Message     string
}

// Log is a log record of a call for its client.
type Log struct {
	Level, Logger string
	// Data is a JSON value.
	Data jsontext.Value
}

// Into reads the structured result into v, a pointer. If the result has no structured content, it
// reads the text: into a string, for example.
func (r *Result) Into(v any) error {
	switch {
	case r.Err != nil:
		return r.Err
	case r.IsError:
		return errors.New(r.Text)
	case r.Structured != nil:
		return json.Unmarshal(r.Structured, v)
	}
	text, err := jsontext.AppendQuote(nil, r.Text)
	if err == nil {
		err = json.Unmarshal(text, v)
	}
	if err != nil {
		return fmt.Errorf("the result has no structured content, and its text is not a value of the type: %w", err)
	}
	return nil
}

// Call calls a tool. args is anything that marshals to a JSON object; nil for
// none. They are validated against the tool's schema, and the result against its
// output schema.
func (b *Bus) Call(tool string, args any) *Result {
	b.t.Helper()
	r := &Result{}
	end, err := b.callTool(b.t.Context(), r, tool, args)
	switch {
	case err != nil:
		r.Err = fault.From(err)
	case end.GetTask() != nil:
		b.t.Fatalf("servicetest: the call of %s goes on as a task: use Task", tool)
	default:
		r.read(b, tool, end.GetResult())
	}
	return r
}

// Call calls a tool and reads its structured result.
func Call[Out any](b *Bus, tool string, args any) (Out, error) {
	b.t.Helper()
	var out Out
	return out, b.Call(tool, args).Into(&out)
}

// read reads the result of a tool, and requires that it matches the tool's definition.
func (r *Result) read(b *Bus, tool string, result *busv1.Result) {
	b.t.Helper()
	var body struct {
		Content    jsontext.Value `json:"content"`
		Structured jsontext.Value `json:"structuredContent"`
	}
	if err := json.Unmarshal(result.GetJson(), &body); err != nil {
		b.t.Fatalf("servicetest: the result of %s cannot be read: %v", tool, err)
	}
	r.Content, r.Structured, r.IsError = body.Content, body.Structured, result.GetIsError()
	r.Text, r.Meta = mcp.TextOf(body.Content), result.GetMeta()
	if r.IsError || r.Structured == nil {
		return
	}
	t, _, err := b.tool(b.t.Context(), tool)
	if err != nil {
		return // the tool was removed meanwhile
	}
	var described mcp.Tool
	if err := json.Unmarshal(t.Json, &described, json.RejectUnknownMembers(false)); err != nil || described.OutputSchema == nil {
		return
	}
	s, err := schema.Compile(described.OutputSchema)
	if err == nil {
		err = s.Validate(r.Structured)
	}
	if err != nil {
		b.t.Fatalf("servicetest: tool %s returns what its schema forbids: %v", tool, err)
	}
}

// callTool makes a call, answers what it asks, and returns its result or task.
func (b *Bus) callTool(ctx context.Context, r *Result, name string, args any) (*busv1.Frame, error) {
	t, svc, err := b.tool(ctx, name)
	if err != nil {
		return nil, err
	}
	arguments, err := object(args)
	if err != nil {
		return nil, err
	}
	if s, err := schema.CompileInput(t.InputSchema); err != nil {
		return nil, fmt.Errorf("the schema of %s: %w", name, err)
	} else if err := s.Validate(arguments); err != nil {
		return nil, fault.New(fault.InvalidParams, "Invalid arguments: %v", err)
	}
	if t.RequiresUserApproval {
		switch {
		case b.approve == nil:
			b.t.Fatalf("servicetest: tool %s needs a person's approval: say Approve(true) or Approve(false)", name)
		case !*b.approve:
			return nil, fault.New(fault.Forbidden, "the user did not approve the call")
		}
	}
	req := b.request(mcp.MethodToolsCall, name)
	req.Arguments, req.AskFirst = arguments, !t.ReadOnly
	if t.CallsTools {
		if req.Delegation, err = b.delegate(svc, 1); err != nil {
			return nil, err
		}
	}
	return b.rounds(ctx, r, svc, req)
}

// maxRounds bounds how often one call may ask.
const maxRounds = 32

// rounds calls until nothing more is asked.
func (b *Bus) rounds(ctx context.Context, r *Result, svc string, req *busv1.Request) (*busv1.Frame, error) {
	for range maxRounds {
		frame, err := b.shared.caller.Call(ctx, svc, req, r.hear)
		if err != nil {
			return nil, err
		}
		open := frame.GetInputRequired()
		if open == nil {
			return frame, nil
		}
		req.Id, req.RequestState = "", open.RequestState
		if req.InputResponses, err = b.answer(r, open.InputRequests); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%s asked %d times", req.Name, maxRounds)
}

func (r *Result) hear(f *busv1.Frame) {
	switch {
	case f.GetProgress() != nil:
		p := f.GetProgress()
		r.Progress = append(r.Progress, Progress{p.Progress, p.Total, p.Message})
	case f.GetLog() != nil:
		l := f.GetLog()
		r.Logs = append(r.Logs, Log{mcp.LogLevels[l.Level-1], l.Logger, l.Data})
	}
}

// answer answers questions as the test has set them.
func (b *Bus) answer(r *Result, questions []byte) ([]byte, error) {
	var open map[string]struct {
		Method string         `json:"method"`
		Params jsontext.Value `json:"params"`
	}
	if err := json.Unmarshal(questions, &open); err != nil {
		return nil, err
	}
	given := map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(open)) {
		content, said := b.answers[key]
		if !said {
			b.t.Fatalf("servicetest: the tool asks %q (%s): say Answer(%q, …) or Decline(%q)", key, open[key].Method, key, key)
		}
		r.Asked = append(r.Asked, key)
		switch open[key].Method {
		case mcp.MethodSample:
			given[key] = map[string]any{"role": "assistant", "model": "servicetest", "content": map[string]any{"type": "text", "text": content}}
		case mcp.MethodRoots:
			given[key] = map[string]any{"roots": content}
		default:
			given[key] = map[string]any{"action": "accept", "content": content}
			if content == nil {
				given[key] = map[string]any{"action": "decline"}
			}
		}
	}
	return json.Marshal(given, json.Deterministic(true))
}

// request is a request of this caller.
func (b *Bus) request(method, name string) *busv1.Request {
	extensions := `"` + mcp.ExtensionTasks + `":{}`
	if b.plain {
		extensions = ""
	}
	return &busv1.Request{
		Method: method, Name: name, Identity: b.identity, IdempotencyKey: b.key, Meta: b.meta,
		WantsProgress: true, LogLevel: busv1.LogLevel_LOG_LEVEL_DEBUG,
		Client: &busv1.Client{Name: "servicetest", Version: "1", Capabilities: []byte(
			`{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{},"extensions":{` + extensions + `}}`)},
	}
}

// tool finds a tool and its service.
func (b *Bus) tool(ctx context.Context, name string) (*busv1.Tool, string, error) {
	for _, svc := range b.shared.registry.Services() {
		for _, t := range svc.Catalogue.GetTools() {
			if t.Name == name {
				return t, svc.Name, nil
			}
		}
	}
	return nil, "", fault.New(fault.UnknownTool, "Unknown tool: %s", fault.Clip(name))
}

func object(v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return []byte("{}"), nil
	case []byte:
		return v, nil
	case string:
		return []byte(v), nil
	}
	return json.Marshal(v, json.Deterministic(true))
}
