package rest

import (
	"net/http"
	"strings"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/api"
	"github.com/busbar-mcp/busbar/services/edge/pages"
)

// docs is a page to try the tools, and to answer waiting calls.
func (h *Handler) docs(w http.ResponseWriter, _ *http.Request, _ api.Caller, _ string) error {
	pages.Show(w, "docs")
	return nil
}

// asset serves the files that pages load.
func (h *Handler) asset(w http.ResponseWriter, r *http.Request, _ api.Caller, name string) error {
	name, ok := strings.CutPrefix(name, strings.TrimPrefix(pages.Assets, "/docs/"))
	if !ok {
		return fault.New(fault.MethodNotFound, "nothing is at this path")
	}
	return pages.Serve(w, r, name)
}
