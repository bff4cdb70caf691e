package rest

import (
	_ "embed"
	"net/http"

	"github.com/busbar-mcp/busbar/services/edge/api"
	"github.com/busbar-mcp/busbar/services/edge/door"
)

// docsPage lets a person try the tools.
//
//go:embed docs.html
var docsPage string

var docsPolicy = door.PagePolicy(docsPage)

func (h *Handler) docs(w http.ResponseWriter, _ *http.Request, _ api.Caller, _ string) error {
	door.Page(w, docsPolicy, []byte(docsPage))
	return nil
}
