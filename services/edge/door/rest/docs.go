package rest

import (
	_ "embed"
	"net/http"

	"github.com/busbar-mcp/busbar/services/edge/api"
)

// openAPIDocument is the interface of this door; a test keeps it true.
//
//go:embed openapi.json
var openAPIDocument []byte

// docsPage lets a person try the tools.
//
//go:embed docs.html
var docsPage []byte

func (h *Handler) openAPI(w http.ResponseWriter, r *http.Request, _ api.Caller, _ string) error {
	return page200(w, r, "application/json", openAPIDocument)
}

func (h *Handler) docs(w http.ResponseWriter, r *http.Request, _ api.Caller, _ string) error {
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; frame-ancestors 'none'")
	return page200(w, r, "text/html; charset=utf-8", docsPage)
}

func page200(w http.ResponseWriter, r *http.Request, contentType string, b []byte) error {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if r.Method != http.MethodHead {
		_, _ = w.Write(b)
	}
	return nil
}
