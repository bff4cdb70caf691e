package door

import (
	"net/http"

	"github.com/busbar-mcp/busbar/services/edge/api"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// Caller is who makes a request through a door, found out before the request is
// read. The error is a *fault.Error.
func Caller(s *api.Server, r *http.Request, name string) (api.Caller, error) {
	c, err := s.Admit(r.Context(), name, Credentials(r))
	return caller(r, name, c), err
}

func caller(r *http.Request, name string, c gateway.Credentials) api.Caller {
	return api.Caller{Door: name, Credentials: c, Traceparent: r.Header.Get("Traceparent"), Tracestate: r.Header.Get("Tracestate")}
}

// Stay is who is at the other end of a connection that stays open.
type Stay struct {
	*gateway.Stay
	first api.Caller
}

// NewStay is Caller for a request that opens such a connection. Close it with the
// connection.
func NewStay(s *api.Server, r *http.Request, name string) (Stay, error) {
	c, err := Caller(s, r, name)
	if err != nil {
		return Stay{}, err
	}
	stay, err := s.Stay(r.Context(), c)
	return Stay{stay, c}, err
}

// Caller is who makes a call over the connection now.
func (s Stay) Caller() api.Caller {
	c := s.first
	c.Credentials = s.Credentials()
	return c
}
