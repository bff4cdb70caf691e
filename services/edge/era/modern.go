package era

import (
	"context"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
)

// modern answers a request of 2026-07-28. All it needs is in the request.
func (s *Server) modern(ctx context.Context, r *Request, x Exchange) {
	m := r.Message
	if err := CheckMeta(m); err != nil {
		s.Refuse(r, x, err)
		return
	}
	if kind, ok := lists[m.Method]; ok {
		s.list(r, x, kind)
		return
	}
	switch m.Method {
	case mcp.MethodDiscover:
		s.result(r, x, complete, s.discover, nil, caching)
	case mcp.MethodSkillsList:
		s.list(r, x, catalogue.Skills)
	case mcp.MethodSkillsGet:
		s.skill(r, x)
	case mcp.MethodDirectoryRead:
		s.directory(r, x)
	case mcp.MethodListen:
		s.listen(ctx, r, x)
	case mcp.MethodToolsCall, mcp.MethodResourcesRead, mcp.MethodPromptsGet, mcp.MethodComplete:
		s.call(ctx, r, x, s.clients.get(m.P.ClientInfo, m.P.ClientCapabilities), m.P.LogLevel)
	case mcp.MethodTasksGet, mcp.MethodTasksUpdate, mcp.MethodTasksCancel:
		s.task(ctx, r, x)
	default:
		s.Refuse(r, x, methodNotFound(m.Method))
	}
}

// CheckMeta requires the fields that every modern request carries
// (2026-07-28, basic, _meta).
func CheckMeta(m *mcp.Message) error {
	switch {
	case m.P.ProtocolVersion == "":
		return fault.New(fault.InvalidParams, "params._meta needs %s", mcp.MetaProtocolVersion)
	case m.P.ClientCapabilities == nil:
		return fault.New(fault.InvalidParams, "params._meta needs %s", mcp.MetaClientCapabilities)
	case m.P.LogLevel != "" && logLevel(m.P.LogLevel) == 0:
		return fault.New(fault.InvalidParams, "params._meta.%s is not a log level", mcp.MetaLogLevel)
	}
	return nil
}

// UnsupportedVersion refuses a version and says which there are.
func UnsupportedVersion(requested string) error {
	return unsupportedVersion(requested, mcp.IsSupported)
}

// unsupportedVersion names the versions that a transport speaks.
func unsupportedVersion(requested string, speaks func(string) bool) error {
	b := []byte(`{"supported":[`)
	for _, v := range mcp.Supported() {
		if speaks(v) {
			b = append(appendQuoted(b, v), ',')
		}
	}
	b[len(b)-1] = ']'
	b = appendQuoted(append(b, `,"requested":`...), requested)
	return fault.New(fault.UnsupportedVersion, "Unsupported protocol version").With(append(b, '}'))
}

func methodNotFound(method string) error {
	return fault.New(fault.MethodNotFound, "Method not found: %s", fault.Clip(method))
}
