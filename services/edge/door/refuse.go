package door

import (
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/era"
)

// Explain says in headers why a request is refused with a status: the reason,
// whether it ran, and what to do about it (docs/errors.md).
func Explain(h http.Header, status int, f *fault.Error) {
	h.Set("Busbar-Reason", string(f.Reason))
	h.Set("Busbar-Executed", string(f.Executed))
	Challenge(h, status)
	switch status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		seconds := int64((f.RetryAfter + time.Second - 1) / time.Second)
		h.Set("Retry-After", strconv.FormatInt(max(1, seconds), 10))
	case http.StatusAccepted:
		var held struct {
			Approval string `json:"approval"`
		}
		if json.Unmarshal(f.Data, &held) == nil {
			h.Set("Location", "/approvals/"+held.Approval)
		}
	}
}

// Challenge says with a 401 how to do better (RFC 9110, 11.6.1).
func Challenge(h http.Header, status int) {
	if status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
}

// Refuse answers a request of MCP with an error; m is what is known of its
// message, nil for nothing.
func Refuse(w http.ResponseWriter, m *mcp.Message, version string, err error) {
	status, body := era.ErrorMessage(m, version, err)
	RefuseWith(w, status, body)
}

// RefuseContent answers a request of MCP with what CheckContent says.
func RefuseContent(w http.ResponseWriter, err error) {
	_, body := era.ErrorMessage(nil, "", err)
	RefuseWith(w, http.StatusUnsupportedMediaType, body)
}

// RefuseWith answers with an error that is written already.
func RefuseWith(w http.ResponseWriter, status int, body []byte) {
	Challenge(w.Header(), status)
	Answer(w, status, "application/json", body)
}
