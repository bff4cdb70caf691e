package rest

import (
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/api"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

func (h *Handler) listHeld(w http.ResponseWriter, r *http.Request, who api.Caller, _ string) error {
	return h.held(w, r, gateway.ForApproval, who)
}

func (h *Handler) listElicitations(w http.ResponseWriter, r *http.Request, who api.Caller, _ string) error {
	return h.held(w, r, gateway.ForAnswers, who)
}

// held lists the calls that wait for the caller's decision, the oldest first.
func (h *Handler) held(w http.ResponseWriter, r *http.Request, ask *gateway.Ask, who api.Caller) error {
	held, err := h.cfg.API.Held(r.Context(), ask, who)
	if err != nil {
		return err
	}
	return send(w, r, http.StatusOK, map[string][]api.Held{ask.Name: held})
}

func (h *Handler) getHeld(w http.ResponseWriter, r *http.Request, who api.Caller, id string) error {
	return h.findHeld(w, r, gateway.ForApproval, who, id)
}

func (h *Handler) getElicitation(w http.ResponseWriter, r *http.Request, who api.Caller, id string) error {
	return h.findHeld(w, r, gateway.ForAnswers, who, id)
}

// findHeld describes a held call, and what is to be decided.
func (h *Handler) findHeld(w http.ResponseWriter, r *http.Request, ask *gateway.Ask, who api.Caller, id string) error {
	held, err := h.cfg.API.FindHeld(r.Context(), ask, who, id)
	if err != nil {
		return err
	}
	return send(w, r, http.StatusOK, held)
}

// approve carries out a held call and answers with its result, or discards it.
func (h *Handler) approve(w http.ResponseWriter, r *http.Request, who api.Caller, id string) error {
	var said struct {
		Approve *bool `json:"approve"`
	}
	form := fault.New(fault.InvalidRequest, `the body must be {"approve":true} or {"approve":false}`)
	return h.decide(w, r, &said, func() bool { return said.Approve != nil }, form, func() (jsontext.Value, error) {
		return h.cfg.API.Approve(r.Context(), who, id, *said.Approve)
	})
}

// answer continues a call that asked, and answers with the call's result.
func (h *Handler) answer(w http.ResponseWriter, r *http.Request, who api.Caller, id string) error {
	var in struct {
		Responses jsontext.Value `json:"responses"`
	}
	form := fault.New(fault.InvalidRequest, `the body must be {"responses":{…}}, which has {"action":"accept","content":{…}}, {"action":"decline"} or {"action":"cancel"} for each of the requests`)
	return h.decide(w, r, &in, func() bool { return in.Responses.Kind() == '{' }, form, func() (jsontext.Value, error) {
		return h.cfg.API.Answer(r.Context(), who, id, in.Responses, nil)
	})
}

// decide reads a decision and answers with the result of the call; form refuses another body.
func (h *Handler) decide(w http.ResponseWriter, r *http.Request, in any, fits func() bool, form *fault.Error, do func() (jsontext.Value, error)) error {
	body, err := h.body(w, r)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, in, json.RejectUnknownMembers(true)); err != nil || !fits() {
		return form.Because(err)
	}
	result, err := do()
	if err != nil {
		return err
	}
	v, err := api.ReadResult(result)
	if err != nil {
		return err
	}
	return send(w, r, http.StatusOK, v)
}
