package websocket

import (
	"context"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/api"
	"github.com/busbar-mcp/busbar/services/edge/forms"
)

// kind handles one type of request, whose data has a form. Its result is sent with the
// answer's type.
type kind struct {
	answer, form string
	do           func(r *request, ctx context.Context) (any, error)
}

// kinds are all types of requests: initialize, and the operations. cancel is not one of them,
// because it has no answer.
var kinds = requests()

func requests() map[string]kind {
	all := map[string]kind{"initialize": {answer: "initialize_response", do: (*request).initialize}}
	for _, o := range api.Operations {
		if m := o.Message; o.Run != nil {
			all[m.Type] = kind{m.Answer, m.Form, operate(o)}
		} else {
			all[m.Type] = kind{m.Answer, m.Form, (*request).batch}
		}
	}
	delete(all, "") // operations without a message
	return all
}

// operate carries out an operation.
func operate(o *api.Operation) func(r *request, ctx context.Context) (any, error) {
	return func(r *request, ctx context.Context) (any, error) {
		call, err := o.Run(r)
		if err != nil {
			return nil, err
		}
		who := r.lease.Caller()
		who.OnFrame = r.onFrame
		out, err := call.Carry(ctx, r.h.cfg.API, who)
		if read, ok := out.(*api.Contents); ok && err == nil {
			return read.Result, nil
		}
		return out, err
	}
}

// Read implements api.Reader: data is an object with the members of the input.
func (r *request) Read(in any) error {
	switch in := in.(type) {
	case *api.ToolCall:
		if r.Data == nil {
			return fault.New(fault.InvalidRequest, "data is missing; it is %s", r.form)
		}
		return in.Read(r.Data)
	case *jsontext.Value:
		*in = r.Data
		return nil
	case *string:
		var of struct {
			URI string `json:"uri"`
		}
		err := r.data(&of)
		*in = of.URI
		return err
	case *api.Decision:
		if err := r.data(in); err != nil || in.Approve != nil {
			return err
		}
	case *api.Answers:
		if err := r.data(in); err != nil || in.Responses.Kind() == '{' {
			return err
		}
	default:
		return r.data(in)
	}
	return fault.New(fault.InvalidRequest, "data is %s", r.form)
}

// data reads the data of a request strictly.
func (r *request) data(in any) error {
	form := r.form
	if r.Data == nil {
		return fault.New(fault.InvalidRequest, "data is missing; it is %s", form).Toward("send " + r.Type + " with data that is " + form)
	}
	if err := json.Unmarshal(r.Data, in, json.RejectUnknownMembers(true)); err != nil {
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

// batch carries out many calls concurrently. Each has its own batch_result as soon as it
// ends; the answer comes last.
func (r *request) batch(ctx context.Context) (any, error) {
	var in struct {
		Calls    []jsontext.Value `json:"calls"`
		Parallel int              `json:"parallel,omitzero"`
	}
	if err := r.data(&in); err != nil {
		return nil, err
	}
	if len(in.Calls) > maxBatch {
		return nil, fault.New(fault.TooLarge, "a batch has at most %d calls", maxBatch)
	}
	failed := 0
	r.h.cfg.API.Batch(ctx, in.Parallel, api.BatchCalls(r.lease.Caller(), nil, slices.Values(in.Calls)), func(i int, result *api.Result, err error) {
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
