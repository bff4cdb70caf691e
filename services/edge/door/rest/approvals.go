package rest

import (
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/api"
)

// listHeld lists the caller's calls that are held, the oldest first.
func (h *Handler) listHeld(w http.ResponseWriter, r *http.Request, who api.Caller, _ string) error {
	held, err := h.cfg.API.Held(r.Context(), who)
	if err != nil {
		return err
	}
	return send(w, r, http.StatusOK, struct {
		Approvals []api.Held `json:"approvals"`
	}{held})
}

// getHeld describes a held call.
func (h *Handler) getHeld(w http.ResponseWriter, r *http.Request, who api.Caller, id string) error {
	held, err := h.cfg.API.FindHeld(r.Context(), who, id)
	if err != nil {
		return err
	}
	return send(w, r, http.StatusOK, held)
}

// approve carries out a held call and answers with its result, or discards it.
func (h *Handler) approve(w http.ResponseWriter, r *http.Request, who api.Caller, id string) error {
	body, err := h.body(w, r)
	if err != nil {
		return err
	}
	var said struct {
		Approve *bool `json:"approve"`
	}
	if err := json.Unmarshal(body, &said, json.RejectUnknownMembers(true)); err != nil || said.Approve == nil {
		return fault.New(fault.InvalidRequest, `the body must be {"approve":true} or {"approve":false}`).Because(err)
	}
	return show(w, r, func() (jsontext.Value, error) { return h.cfg.API.Approve(r.Context(), who, id, *said.Approve) })
}
