package rest

import (
	"errors"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/door"
	"github.com/busbar-mcp/busbar/services/edge/forms"
)

// unsupported is what door.CheckContent says.
type unsupported struct{ error }

// Unwrap returns it.
func (u unsupported) Unwrap() error { return u.error }

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

func classify(err error) (status int, f *fault.Error) {
	f = fault.From(err)
	if errors.As(err, &unsupported{}) {
		return http.StatusUnsupportedMediaType, f
	}
	return forms.Of(f.Reason).HTTP, f
}

func problem(err error) Problem {
	status, f := classify(err)
	return Problem{
		Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: f.Message,
		Reason: f.Reason, Executed: f.Executed, RetryAfterMS: f.RetryAfter.Milliseconds(), Data: f.Data,
	}
}

// refuse answers with an error.
func refuse(w http.ResponseWriter, err error) {
	status, f := classify(err)
	b, _ := json.Marshal(problem(err))
	door.Explain(w.Header(), status, f)
	door.Answer(w, status, "application/problem+json", b)
}
