package websocket

import (
	"context"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/api"
	"github.com/busbar-mcp/busbar/services/edge/forms"
)

// data reads the data of a request strictly.
func (r *request) data(v any, form string) error {
	if r.Data == nil {
		return fault.New(fault.InvalidRequest, "data is missing; it is %s", form).Toward("send " + r.Type + " with data that is " + form)
	}
	if err := json.Unmarshal(r.Data, v, json.RejectUnknownMembers(true)); err != nil {
		return fault.New(fault.InvalidRequest, "data is %s", form).Toward("send " + r.Type + " with data that is " + form).Because(err)
	}
	return nil
}

// initialize describes the edge. Nothing depends on it: each request stands alone.
func (r *request) initialize(context.Context) (any, error) {
	return struct {
		Name       string `json:"name"`
		Version    string `json:"version"`
		APIVersion string `json:"api_version"`
	}{"busbar", r.h.cfg.Version, "1.0.0"}, nil
}

func (r *request) tool(ctx context.Context) (any, error) {
	if r.Data == nil {
		return nil, fault.New(fault.InvalidRequest, "data is missing; it is an object with name and parameters")
	}
	in, err := api.ReadBatchCall(r.Data)
	if err != nil {
		return nil, err
	}
	return r.result(r.do(ctx, in.Call(r.lease.Caller(), r.onFrame)))
}

// result reads the result of a tool.
func (r *request) result(result jsontext.Value, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return api.ReadResult(result)
}

func (r *request) resource(ctx context.Context) (any, error) {
	var in struct {
		URI string `json:"uri"`
	}
	if err := r.data(&in, "an object with uri"); err != nil {
		return nil, err
	}
	return r.do(ctx, r.lease.Caller().Call(mcp.MethodResourcesRead, in.URI, nil, r.onFrame))
}

func (r *request) prompt(ctx context.Context) (any, error) {
	var in struct {
		Name      string         `json:"name"`
		Arguments jsontext.Value `json:"arguments,omitzero"`
	}
	if err := r.data(&in, "an object with name and arguments"); err != nil {
		return nil, err
	}
	return r.do(ctx, r.lease.Caller().Call(mcp.MethodPromptsGet, in.Name, in.Arguments, r.onFrame))
}

func (r *request) sampling(ctx context.Context) (any, error) {
	return r.h.cfg.API.Sample(ctx, r.lease.Caller(), r.Data, r.onFrame)
}

// approve carries out a held call and answers with its result, or discards it.
func (r *request) approve(ctx context.Context) (any, error) {
	const form = "an object with approval, an id, and approve, true or false"
	var in struct {
		Approval string `json:"approval"`
		Approve  *bool  `json:"approve"`
	}
	if err := r.data(&in, form); err != nil {
		return nil, err
	}
	if in.Approve == nil {
		return nil, fault.New(fault.InvalidRequest, "data is %s", form)
	}
	return r.result(r.h.cfg.API.Approve(ctx, r.lease.Caller(), in.Approval, *in.Approve))
}

// answer continues a call whose tool asked something, and answers with the call's result.
func (r *request) answer(ctx context.Context) (any, error) {
	const form = "an object with elicitation, an id, and responses, an object"
	var in struct {
		Elicitation string         `json:"elicitation"`
		Responses   jsontext.Value `json:"responses"`
	}
	if err := r.data(&in, form); err != nil {
		return nil, err
	}
	if in.Responses.Kind() != '{' {
		return nil, fault.New(fault.InvalidRequest, "data is %s", form)
	}
	return r.result(r.h.cfg.API.Answer(ctx, r.lease.Caller(), in.Elicitation, in.Responses, r.onFrame))
}

// batch carries out many calls concurrently. Each has its own batch_result as soon as it
// ends; the answer comes last.
func (r *request) batch(ctx context.Context) (any, error) {
	var in struct {
		Calls    []jsontext.Value `json:"calls"`
		Parallel int              `json:"parallel,omitzero"`
	}
	if err := r.data(&in, "an object with calls, an array, and optionally parallel, a number"); err != nil {
		return nil, err
	}
	if len(in.Calls) > maxBatch {
		return nil, fault.New(fault.TooLarge, "a batch has at most %d calls", maxBatch)
	}
	failed := 0
	r.h.cfg.API.Batch(ctx, in.Parallel, api.BatchCalls(r.lease.Caller(), nil, slices.Values(in.Calls)), func(i int, result jsontext.Value, err error) {
		slot := api.NewSlot(result, err, forms.WebSocket)
		slot.Index = &i
		if slot.IsError {
			failed++
		}
		r.send("batch_result", slot)
	})
	return struct {
		Calls  int `json:"calls"`
		Failed int `json:"failed"`
	}{len(in.Calls), failed}, nil
}
