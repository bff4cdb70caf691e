package rest

import (
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/api"
)

// listElicitations lists the caller's calls that wait for its answer, the oldest first.
func (h *Handler) listElicitations(w http.ResponseWriter, r *http.Request, who api.Caller, _ string) error {
	all, err := h.cfg.API.Elicitations(r.Context(), who)
	if err != nil {
		return err
	}
	return send(w, r, http.StatusOK, struct {
		Elicitations []api.Elicitation `json:"elicitations"`
	}{all})
}

// getElicitation describes the questions of a call.
func (h *Handler) getElicitation(w http.ResponseWriter, r *http.Request, who api.Caller, id string) error {
	e, err := h.cfg.API.FindElicitation(r.Context(), who, id)
	if err != nil {
		return err
	}
	return send(w, r, http.StatusOK, e)
}

// answer continues a call that asked, and answers with the call's result.
func (h *Handler) answer(w http.ResponseWriter, r *http.Request, who api.Caller, id string) error {
	body, err := h.body(w, r)
	if err != nil {
		return err
	}
	var in struct {
		Responses jsontext.Value `json:"responses"`
	}
	if err := json.Unmarshal(body, &in, json.RejectUnknownMembers(true)); err != nil || in.Responses.Kind() != '{' {
		return fault.New(fault.InvalidRequest, `the body must be {"responses":{…}}, which has {"action":"accept","content":{…}}, {"action":"decline"} or {"action":"cancel"} for each of the requests`).Because(err)
	}
	return show(w, r, func() (jsontext.Value, error) { return h.cfg.API.Answer(r.Context(), who, id, in.Responses, nil) })
}

// show answers with the result of a tool call that was held.
func show(w http.ResponseWriter, r *http.Request, do func() (jsontext.Value, error)) error {
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
