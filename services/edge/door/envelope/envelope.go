// Package envelope is the door of the "1.0" envelope: one object that names an action and
// its parameters, answered with success or error. An array of them is carried out
// concurrently. Start with Handler.ServeHTTP.
package envelope

import (
	"context"
	"errors"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/api"
	"github.com/busbar-mcp/busbar/services/edge/door"
	"github.com/busbar-mcp/busbar/services/edge/forms"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// Path is the path at which to mount the door.
const Path = "/v1"

// version is the only version.
const version = "1.0"

// maxActions bounds an array.
//
//limit:message calls of a batch at `/v1` | `too_large`
const maxActions = 1000

// Config configures the door.
type Config struct {
	API   *api.Server
	Guard door.Guard
	// Limits of one body; zero fields mean mcp.DefaultLimits.
	Limits mcp.Limits
}

// Handler serves Path.
type Handler struct{ cfg Config }

// New makes the door.
func New(cfg Config) *Handler {
	if cfg.Limits.Bytes == 0 {
		cfg.Limits.Bytes = mcp.DefaultLimits().Bytes
	}
	return &Handler{cfg}
}

// request is a request for one action.
type request struct {
	Version string         `json:"version"`
	Action  jsontext.Value `json:"action"`
}

// action is an action with its parameters. It has no other members: with a misspelt one,
// the tool would run without its parameters.
type action struct {
	Name       string         `json:"name"`
	Parameters jsontext.Value `json:"parameters,omitzero"`
}

// response is the outcome of an action: Result with status success, Error with status
// error. The other members are for responses in an array, which have no headers of their
// own.
type response struct {
	Version      string         `json:"version"`
	Status       string         `json:"status"`
	Result       jsontext.Value `json:"result,omitzero"`
	Error        string         `json:"error,omitzero"`
	Reason       fault.Reason   `json:"reason,omitzero"`
	Executed     fault.Executed `json:"executed,omitzero"`
	Next         string         `json:"next,omitzero"`
	RetryAfterMS int64          `json:"retry_after_ms,omitzero"`
	Data         jsontext.Value `json:"data,omitzero"`
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := h.cfg.Guard.Check(r); err != nil {
		answer(w, failure(err), err)
		return
	}
	if door.CORS(w, r) {
		return
	}
	if r.Method != http.MethodPost {
		err := door.NotAllowed(w, r, http.MethodPost)
		answer(w, failure(err), err)
		return
	}
	err := door.CheckContent(r.Header)
	var who api.Caller
	if err == nil {
		who, err = door.Caller(h.cfg.API, r, "envelope")
	}
	if err == nil && len(r.Header["Idempotency-Key"]) > 0 {
		err = fault.New(fault.InvalidRequest, "the envelope has no idempotency key").Toward("POST /tools/{name} takes the header Idempotency-Key")
	}
	var body []byte
	if err == nil {
		body, err = door.ReadBody(w, r, h.cfg.Limits.Bytes)
	}
	if err == nil {
		err = mcp.Valid(body, h.cfg.Limits)
	}
	if err != nil {
		answer(w, failure(err), err)
		return
	}
	if jsontext.Value(body).Kind() == '[' {
		h.many(w, r, who, body)
		return
	}
	call, err := read(body)
	var result *api.Result
	if err == nil {
		result, err = h.cfg.API.CallTool(r.Context(), who, call)
	}
	answer(w, outcome(result, err), err)
}

// many carries out an array of actions concurrently. Each has its place in the answer,
// and one failure does not affect the others.
func (h *Handler) many(w http.ResponseWriter, r *http.Request, who api.Caller, body []byte) {
	var actions []jsontext.Value
	err := json.Unmarshal(body, &actions)
	if err == nil && len(actions) > maxActions {
		err = fault.New(fault.TooLarge, "an array has at most %d actions", maxActions)
	}
	if err != nil {
		answer(w, failure(err), err)
		return
	}
	ctx, stop := context.WithCancel(r.Context())
	defer stop()
	out := door.NewArray(w, "[", "]")
	h.cfg.API.BatchInOrder(ctx, 0, func(yield func(*gateway.Call, error) bool) {
		for _, action := range actions {
			c, err := read(action)
			if !yield(c.Call(who), err) {
				return
			}
		}
	}, func(_ int, result *api.Result, err error) {
		one := outcome(result, err)
		if err != nil {
			f := fault.From(err)
			one.Reason, one.Executed, one.Next, one.RetryAfterMS, one.Data = f.Reason, f.Executed, forms.Next(f, forms.HTTP), f.RetryAfter.Milliseconds(), f.Data
		}
		if !out.Add(one) {
			stop() // nobody reads
		}
	})
	out.End()
}

func read(b []byte) (call api.ToolCall, err error) {
	var in request
	var do action
	err = json.Unmarshal(b, &in)
	if err == nil && in.Action != nil {
		err = json.Unmarshal(in.Action, &do, json.RejectUnknownMembers(true))
	}
	switch {
	case errors.Is(err, json.ErrUnknownName):
		return call, fault.New(fault.InvalidRequest, "action has a name and parameters, and nothing else")
	case err != nil:
		return call, fault.New(fault.InvalidRequest, `a request is {"version":"1.0","action":{"name":…,"parameters":{…}}}`).Because(err)
	case in.Version != version:
		return call, fault.New(fault.InvalidRequest, "version must be %q", version)
	case do.Name == "":
		return call, fault.New(fault.InvalidRequest, "action.name is missing")
	case do.Parameters != nil && do.Parameters.Kind() != '{':
		return call, fault.New(fault.InvalidParams, "action.parameters must be an object")
	}
	return api.ToolCall{Name: do.Name, Parameters: do.Parameters}, nil
}

// outcome is the response to an action: the tool's structured result, or its content if
// it has none.
func outcome(r *api.Result, err error) response {
	switch {
	case err != nil:
		return failure(err)
	case r.IsError:
		return response{Version: version, Status: "error", Error: r.Text()}
	case r.StructuredContent.Kind() == '{':
		return response{Version: version, Status: "success", Result: r.StructuredContent}
	}
	b, err := json.Marshal(map[string]jsontext.Value{"content": r.Content})
	if err != nil {
		return failure(err)
	}
	return response{Version: version, Status: "success", Result: b}
}

func failure(err error) response {
	return response{Version: version, Status: "error", Error: fault.From(err).Message}
}

// answer sends one response or several. Facts that the envelope has no field for go into
// headers: the kind of an error, and whether the action ran.
func answer(w http.ResponseWriter, v any, err error) {
	b, failed := json.Marshal(v)
	if failed != nil {
		b, err = []byte(`{"version":"1.0","status":"error","error":"internal error"}`), failed
	}
	status := http.StatusOK
	if err != nil {
		f := fault.From(err)
		status = door.Status(err)
		door.Explain(w.Header(), status, f)
		if next := forms.Next(f, forms.HTTP); next != "" {
			w.Header().Set("Busbar-Next", next)
		}
	}
	door.Answer(w, status, "application/json", b)
}
