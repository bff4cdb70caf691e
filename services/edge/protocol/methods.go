package protocol

import (
	"cmp"
	"context"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// A method carries out the requests of one method. out takes the messages ahead of the response.
type method func(s *Server, ctx context.Context, r *Request, out Sender) (reply, error)

// modernMethods are the methods of 2026-07-28. A request has everything that it needs.
var modernMethods = map[string]method{
	mcp.MethodDiscover:      (*Server).discover,
	mcp.MethodToolsList:     list(catalogue.Tools),
	mcp.MethodPromptsList:   list(catalogue.Prompts),
	mcp.MethodResourcesList: list(catalogue.Resources),
	mcp.MethodTemplatesList: list(catalogue.Templates),
	mcp.MethodSkillsList:    list(catalogue.Skills),
	mcp.MethodSkillsGet:     (*Server).getSkill,
	mcp.MethodDirectoryRead: (*Server).readDirectory,
	mcp.MethodToolsCall:     (*Server).call,
	mcp.MethodResourcesRead: (*Server).call,
	mcp.MethodPromptsGet:    (*Server).call,
	mcp.MethodComplete:      (*Server).call,
	mcp.MethodListen:        (*Server).listen,
	mcp.MethodTasksGet:      (*Server).task,
	mcp.MethodTasksUpdate:   (*Server).task,
	mcp.MethodTasksCancel:   (*Server).task,
}

// legacyMethods are the methods of 2024-11-05 to 2025-11-25. initialize is not among them: the
// door keeps the session that it opens.
var legacyMethods = map[string]method{
	mcp.MethodPing:          (*Server).ping,
	mcp.MethodToolsList:     list(catalogue.LegacyTools),
	mcp.MethodPromptsList:   list(catalogue.Prompts),
	mcp.MethodResourcesList: list(catalogue.Resources),
	mcp.MethodTemplatesList: list(catalogue.Templates),
	mcp.MethodToolsCall:     (*Server).legacyCall,
	mcp.MethodResourcesRead: (*Server).legacyCall,
	mcp.MethodPromptsGet:    (*Server).legacyCall,
	mcp.MethodComplete:      (*Server).legacyCall,
	mcp.MethodSetLevel:      (*Server).setLevel,
	mcp.MethodSubscribe:     (*Server).subscribe,
	mcp.MethodUnsubscribe:   (*Server).subscribe,
}

// do carries out a request.
func (s *Server) do(ctx context.Context, r *Request, out Sender) (reply, error) {
	m, methods := r.Message, legacyMethods
	if m.P.URI != "" {
		if err := catalogue.CheckURI(m.P.URI); err != nil {
			return reply{}, err
		}
	}
	if r.Modern() {
		if err := checkMeta(m); err != nil {
			return reply{}, err
		}
		methods = modernMethods
	}
	f, ok := methods[m.Method]
	if !ok {
		if err := s.admit(ctx, r); err != nil {
			return reply{}, err
		}
		return reply{}, fault.New(fault.MethodNotFound, "Method not found: %s", fault.Clip(m.Method))
	}
	return f(s, ctx, r, out)
}

// checkMeta requires the fields that every modern request carries (2026-07-28, basic, _meta).
func checkMeta(m *mcp.Message) error {
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

// UnsupportedVersion refuses a version and lists the supported ones.
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

func missing(param string) error {
	return fault.New(fault.InvalidParams, "params.%s is missing", param)
}

// admit admits a request that the edge answers itself. Other requests are calls, which the
// gateway admits.
func (s *Server) admit(ctx context.Context, r *Request) error { return s.gateway.Enter(ctx, asked(r)) }

// asked is such a request as the gateway knows it.
func asked(r *Request) *gateway.Call {
	p := &r.Message.P
	return &gateway.Call{
		Door: r.Door, Method: r.Message.Method, Name: cmp.Or(p.Name, p.URI),
		Credentials: r.Credentials, Traceparent: p.Traceparent, Tracestate: p.Tracestate,
	}
}

// enter is admit, and returns the part of the catalogue that the caller may see.
func (s *Server) enter(ctx context.Context, r *Request) (*catalogue.Snapshot, error) {
	now, _, err := s.gateway.Browse(ctx, asked(r))
	return now, err
}

func (s *Server) ping(ctx context.Context, r *Request, _ Sender) (reply, error) {
	return result(nil), s.admit(ctx, r)
}

func (s *Server) discover(ctx context.Context, r *Request, _ Sender) (reply, error) {
	now, err := s.enter(ctx, r)
	if err != nil {
		return reply{}, err
	}
	return reply{resultType: complete, body: s.about(now), hints: hintsFor(now.Private())}, nil
}

// list answers with a page of a list, for which services may be asked.
func list(kind catalogue.Kind) method {
	return func(s *Server, ctx context.Context, r *Request, _ Sender) (reply, error) {
		_, page, err := s.gateway.List(s.track(ctx, r), kind, asked(r), r.Message.P.Cursor, 0)
		if err != nil {
			return reply{}, err
		}
		return reply{resultType: complete, page: page, hints: hintsFor(page.Private)}, nil
	}
}

// hintsFor says how long something may be kept, and for whom.
func hintsFor(onlyCaller bool) string {
	if onlyCaller {
		return private
	}
	return caching
}

func (s *Server) getSkill(ctx context.Context, r *Request, _ Sender) (reply, error) {
	now, err := s.enter(ctx, r)
	if err != nil {
		return reply{}, err
	}
	uri := r.Message.P.URI
	entry, ok := now.Skill(uri)
	switch {
	case ok:
		return reply{resultType: complete, body: append(append([]byte(`{"skill":`), entry...), '}'), hints: hintsFor(now.Private())}, nil
	case uri == "":
		return reply{}, missing("uri")
	}
	data := append(appendQuoted([]byte(`{"uri":`), uri), '}')
	return reply{}, s.gateway.Absent(fault.New(fault.UnknownResource, "No skill is served at %s", fault.Clip(uri)).With(data))
}

// readDirectory answers resources/directory/read. Only skills have directories.
func (s *Server) readDirectory(ctx context.Context, r *Request, _ Sender) (reply, error) {
	now, err := s.enter(ctx, r)
	if err != nil {
		return reply{}, err
	}
	uri := r.Message.P.URI
	page, ok, err := now.Directory(uri, r.Message.P.Cursor)
	switch {
	case err != nil:
		return reply{}, err
	case ok:
		return result(object(page)), nil
	case uri == "":
		return reply{}, missing("uri")
	}
	if _, exists := now.Resource(uri); exists {
		return reply{}, fault.New(fault.InvalidParams, "%s is not a directory", fault.Clip(uri))
	}
	return reply{}, s.gateway.Absent(gateway.UnknownResource(uri))
}
