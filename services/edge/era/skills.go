package era

import (
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// skill answers skills/get.
func (s *Server) skill(r *Request, x Exchange) {
	uri := r.Message.P.URI
	entry, ok := s.gateway.Catalogue().Now().Skill(uri)
	switch {
	case ok:
		body := append(append([]byte(`{"skill":`), entry...), '}')
		s.result(r, x, complete, body, nil, caching)
	case uri == "":
		s.Refuse(r, x, fault.New(fault.InvalidParams, "params.uri is missing"))
	default:
		data := append(appendQuoted([]byte(`{"uri":`), uri), '}')
		s.Refuse(r, x, fault.New(fault.UnknownResource, "No skill is served at %s", fault.Clip(uri)).With(data))
	}
}

// directory answers resources/directory/read. The directories there are, are
// those of skills.
func (s *Server) directory(r *Request, x Exchange) {
	uri, now := r.Message.P.URI, s.gateway.Catalogue().Now()
	page, ok, err := now.Directory(uri, r.Message.P.Cursor)
	switch {
	case err != nil:
		s.Refuse(r, x, err)
	case ok:
		s.result(r, x, complete, append(append([]byte{'{'}, page...), '}'), nil, "")
	case uri == "":
		s.Refuse(r, x, fault.New(fault.InvalidParams, "params.uri is missing"))
	default:
		if _, exists := now.Resource(uri); exists {
			s.Refuse(r, x, fault.New(fault.InvalidParams, "%s is not a directory", fault.Clip(uri)))
			return
		}
		s.Refuse(r, x, gateway.UnknownResource(uri))
	}
}
