package rest

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/api"
)

// errUnsupported is for a body that is not JSON.
var errUnsupported = errors.New("the body must be application/json in UTF-8, without Content-Encoding")

// Problem is an error as this door writes it (RFC 9457), with what every error
// of Busbar says: its reason, and whether the call ran.
type Problem struct {
	Type         string         `json:"type"`
	Title        string         `json:"title"`
	Status       int            `json:"status"`
	Detail       string         `json:"detail"`
	Reason       fault.Reason   `json:"reason"`
	Executed     fault.Executed `json:"executed"`
	RetryAfterMS int64          `json:"retry_after_ms,omitzero"`
	Data         jsontext.Value `json:"data,omitzero"`
}

func problem(err error) Problem {
	f := fault.From(err)
	status := api.Status(f.Reason)
	if errors.Is(err, errUnsupported) {
		f = fault.New(fault.InvalidRequest, "%s", errUnsupported)
		status = http.StatusUnsupportedMediaType
	}
	return Problem{
		Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: f.Message,
		Reason: f.Reason, Executed: f.Executed, RetryAfterMS: f.RetryAfter.Milliseconds(), Data: f.Data,
	}
}

// refuse answers with an error.
func refuse(w http.ResponseWriter, err error) {
	p := problem(err)
	b, _ := json.Marshal(p)
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	switch p.Status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		h.Set("Retry-After", strconv.FormatInt(max(1, (p.RetryAfterMS+999)/1000), 10))
	case http.StatusAccepted:
		var held struct {
			Approval string `json:"approval"`
		}
		if json.Unmarshal(p.Data, &held) == nil {
			h.Set("Location", "/approvals/"+held.Approval)
		}
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", "Bearer")
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTime))
	w.WriteHeader(p.Status)
	_, _ = w.Write(b)
}
