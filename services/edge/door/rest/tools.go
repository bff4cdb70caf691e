package rest

import (
	"context"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/api"
	"github.com/busbar-mcp/busbar/services/edge/door"
)

func (h *Handler) listTools(w http.ResponseWriter, r *http.Request, who api.Caller, _ string) error {
	tools, next, err := page(r, who, h.cfg.API.Tools)
	if err != nil {
		return err
	}
	return send(w, r, http.StatusOK, struct {
		Tools []*api.Tool `json:"tools"`
		Next  string      `json:"next_cursor,omitzero"`
	}{tools, next})
}

func (h *Handler) getTool(w http.ResponseWriter, r *http.Request, who api.Caller, name string) error {
	t, err := h.cfg.API.FindTool(r.Context(), who, name)
	if err != nil {
		return err
	}
	return send(w, r, http.StatusOK, t)
}

// callTool calls a tool with the body as its arguments.
func (h *Handler) callTool(w http.ResponseWriter, r *http.Request, who api.Caller, name string) error {
	return h.do(w, r, who, mcp.MethodToolsCall, name, func(result jsontext.Value) (any, error) { return api.ReadResult(result) })
}

func (h *Handler) listPrompts(w http.ResponseWriter, r *http.Request, who api.Caller, _ string) error {
	prompts, next, err := page(r, who, h.cfg.API.Prompts)
	if err != nil {
		return err
	}
	return send(w, r, http.StatusOK, struct {
		Prompts []jsontext.Value `json:"prompts"`
		Next    string           `json:"next_cursor,omitzero"`
	}{prompts, next})
}

func (h *Handler) getPrompt(w http.ResponseWriter, r *http.Request, who api.Caller, name string) error {
	p, err := h.cfg.API.FindPrompt(r.Context(), who, name)
	if err != nil {
		return err
	}
	return send(w, r, http.StatusOK, p)
}

// runPrompt fills in a prompt with the body as its arguments.
func (h *Handler) runPrompt(w http.ResponseWriter, r *http.Request, who api.Caller, name string) error {
	return h.do(w, r, who, mcp.MethodPromptsGet, name, func(result jsontext.Value) (any, error) { return result, nil })
}

// do makes a call for a request; show makes the answer of its result.
func (h *Handler) do(w http.ResponseWriter, r *http.Request, who api.Caller, method, name string, show func(jsontext.Value) (any, error)) error {
	arguments, err := h.body(w, r)
	if err != nil {
		return who.OfBody(method, err)
	}
	if door.Accepts(r.Header).EventsFirst {
		h.stream(w, r, who, method, name, arguments, show)
		return nil
	}
	result, again, err := h.cfg.API.DoOnce(r.Context(), who.Call(method, name, arguments, nil), nil)
	if err != nil {
		return err
	}
	if again {
		replayed(w)
	}
	v, err := show(result)
	if err != nil {
		return err
	}
	return send(w, r, http.StatusOK, v)
}

// replayed says that the answer is the one to an earlier request with the same key.
func replayed(w http.ResponseWriter) { w.Header().Set("Idempotency-Replayed", "true") }

// sample asks the configured model.
func (h *Handler) sample(w http.ResponseWriter, r *http.Request, who api.Caller, _ string) error {
	body, err := h.body(w, r)
	if err != nil {
		return who.OfBody(mcp.MethodSample, err)
	}
	if body == nil {
		return fault.New(fault.InvalidRequest, "the body must be a JSON object with messages and max_tokens")
	}
	result, err := h.cfg.API.Sample(r.Context(), who, body, nil)
	if err != nil {
		return err
	}
	return send(w, r, http.StatusOK, result)
}

// stream makes a call and answers with events: progress and log as they come, and then
// result or error.
func (h *Handler) stream(w http.ResponseWriter, r *http.Request, who api.Caller, method, name string, arguments []byte, show func(jsontext.Value) (any, error)) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	// A client that is gone has given up the call.
	events := door.NewEvents(w, cancel)
	defer events.Close()
	events.Notify(door.Comment)
	onFrame := func(f *busv1.Frame) {
		if name, data := api.Event(f); name != "" {
			events.Notify(door.Event(name, data))
		}
	}
	result, err := h.cfg.API.Do(ctx, who.Call(method, name, arguments, onFrame), onFrame)
	var v any
	if err == nil {
		v, err = show(result)
	}
	kind := "result"
	if err != nil {
		kind, v = "error", door.Problem(err)
	}
	if b, err := json.Marshal(v); err == nil {
		events.Send(door.Event(kind, b))
	}
}
