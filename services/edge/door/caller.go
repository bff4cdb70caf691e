package door

import (
	"net/http"

	"github.com/busbar-mcp/busbar/services/edge/api"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// Caller finds the caller of a request through a door, before the request is read. The
// error is a *fault.Error.
func Caller(s *api.Server, r *http.Request, name string) (api.Caller, error) {
	c, err := s.Admit(r.Context(), name, Credentials(r))
	return caller(r, name, c), err
}

func caller(r *http.Request, name string, c gateway.Credentials) api.Caller {
	return api.Caller{Door: name, Credentials: c, Traceparent: r.Header.Get("Traceparent"), Tracestate: r.Header.Get("Tracestate")}
}

// Lease is the caller at the other end of a connection that stays open.
type Lease struct {
	*gateway.Lease
	first api.Caller
}

// NewLease is Caller for a request that opens such a connection. Close it with the
// connection.
func NewLease(s *api.Server, r *http.Request, name string) (Lease, error) {
	c, err := Caller(s, r, name)
	if err != nil {
		return Lease{}, err
	}
	lease, err := s.Lease(r.Context(), c)
	return Lease{lease, c}, err
}

// Caller is the caller of a call that is made over the connection now.
func (s Lease) Caller() api.Caller {
	c := s.first
	c.Credentials = s.Credentials()
	return c
}
