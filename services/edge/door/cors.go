package door

import (
	"net/http"

	"github.com/busbar-mcp/busbar/libs/mcp"
)

// What a web page may send and read (Fetch Standard, CORS protocol).
const (
	corsMethods = "POST, GET, PUT, PATCH, DELETE"
	corsExposed = mcp.HeaderSessionID + ", WWW-Authenticate, Retry-After, Location, ETag, Busbar-Reason, Busbar-Executed"
	corsMaxAge  = "600" // seconds
)

// CORS lets pages of an origin that the Guard has let pass read the answer. It
// reports whether the request was a preflight, which it has then answered.
func CORS(w http.ResponseWriter, r *http.Request) (preflight bool) {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	h := w.Header()
	h.Add("Vary", "Origin")
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", corsExposed)
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	h.Set("Access-Control-Allow-Methods", corsMethods)
	// Which headers a call needs depends on the tool (Mcp-Param-…), so the page
	// gets those it asks for; they give it nothing a client of its own lacks.
	if wanted := r.Header.Get("Access-Control-Request-Headers"); wanted != "" {
		h.Set("Access-Control-Allow-Headers", wanted)
		h.Add("Vary", "Access-Control-Request-Headers")
	}
	h.Set("Access-Control-Max-Age", corsMaxAge)
	w.WriteHeader(http.StatusNoContent)
	return true
}
