package rest

import (
	"net/http"

	"github.com/busbar-mcp/busbar/services/edge/api"
)

// access answers /access: it describes the caller.
func (h *Handler) access(w http.ResponseWriter, r *http.Request, who api.Caller, _ string) error {
	me, err := h.cfg.API.Me(r.Context(), who)
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-store")
	return send(w, r, http.StatusOK, me)
}
