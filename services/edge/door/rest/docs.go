package rest

import (
	_ "embed"
	"net/http"

	"github.com/busbar-mcp/busbar/services/edge/api"
	"github.com/busbar-mcp/busbar/services/edge/door"
)

// openAPIDocument is the interface of this door; a test keeps it true.
//
//go:embed openapi.json
var openAPIDocument []byte

// docsPage lets a person try the tools.
//
//go:embed docs.html
var docsPage string

var docsPolicy = door.PagePolicy(docsPage)

func (h *Handler) openAPI(w http.ResponseWriter, _ *http.Request, _ api.Caller, _ string) error {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	door.Answer(w, http.StatusOK, "application/json", openAPIDocument)
	return nil
}

func (h *Handler) docs(w http.ResponseWriter, _ *http.Request, _ api.Caller, _ string) error {
	door.Page(w, docsPolicy, []byte(docsPage))
	return nil
}
