package era

import (
	"bytes"
	"context"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// A method carries out the requests of one method in one era. out takes what
// goes ahead of the response.
type method func(s *Server, ctx context.Context, r *Request, out Sender) (reply, error)

// modernMethods are those of 2026-07-28. All that a request needs is in it.
var modernMethods = map[string]method{
	mcp.MethodDiscover:      (*Server).discover,
	mcp.MethodToolsList:     list(catalogue.Tools),
	mcp.MethodPromptsList:   list(catalogue.Prompts),
	mcp.MethodResourcesList: (*Server).listResources,
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

// legacyMethods are those of 2024-11-05 to 2025-11-25. initialize is not among
// them: the door keeps the session that it opens.
var legacyMethods = map[string]method{
	mcp.MethodPing:          func(*Server, context.Context, *Request, Sender) (reply, error) { return result(nil), nil },
	mcp.MethodToolsList:     list(catalogue.LegacyTools),
	mcp.MethodPromptsList:   list(catalogue.Prompts),
	mcp.MethodResourcesList: (*Server).listResources,
	mcp.MethodTemplatesList: list(catalogue.Templates),
	mcp.MethodToolsCall:     (*Server).legacyCall,
	mcp.MethodResourcesRead: (*Server).legacyCall,
	mcp.MethodPromptsGet:    (*Server).legacyCall,
	mcp.MethodComplete:      (*Server).legacyCall,
	mcp.MethodSetLevel:      (*Server).setLevel,
	mcp.MethodSubscribe:     (*Server).subscribe,
	mcp.MethodUnsubscribe:   (*Server).subscribe,
}

// do carries a request out.
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
		return reply{}, fault.New(fault.MethodNotFound, "Method not found: %s", fault.Clip(m.Method))
	}
	return f(s, ctx, r, out)
}

// checkMeta requires the fields that every modern request carries
// (2026-07-28, basic, _meta).
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

func missing(param string) error {
	return fault.New(fault.InvalidParams, "params.%s is missing", param)
}

func (s *Server) discover(context.Context, *Request, Sender) (reply, error) {
	return reply{resultType: complete, body: s.discovery, hints: caching}, nil
}

// list answers from the bytes that the catalogue has ready.
func list(kind catalogue.Kind) method {
	return func(s *Server, _ context.Context, r *Request, _ Sender) (reply, error) {
		page, err := s.gateway.Catalogue().Now().Page(kind, r.Message.P.Cursor)
		return reply{resultType: complete, body: object(page), hints: caching}, err
	}
}

var listKnownResources = list(catalogue.Resources)

// listResources answers resources/list, for which services are asked that list
// some themselves.
func (s *Server) listResources(ctx context.Context, r *Request, out Sender) (reply, error) {
	if !s.gateway.Catalogue().Now().Lists() {
		return listKnownResources(s, ctx, r, out)
	}
	entries, next, err := s.gateway.ListResources(s.hold(ctx, r), &gateway.Call{
		Door: r.Door, Credentials: r.Credentials, Traceparent: r.Message.P.Traceparent, Tracestate: r.Message.P.Tracestate,
	}, r.Message.P.Cursor, 0)
	if err != nil {
		return reply{}, err
	}
	body := append([]byte(`{"resources":[`), bytes.Join(entries, []byte{','})...)
	body = append(body, ']')
	if next != "" {
		body = appendQuoted(append(body, `,"nextCursor":`...), next)
	}
	return reply{resultType: complete, body: append(body, '}'), hints: private}, nil
}

func (s *Server) getSkill(_ context.Context, r *Request, _ Sender) (reply, error) {
	uri := r.Message.P.URI
	entry, ok := s.gateway.Catalogue().Now().Skill(uri)
	switch {
	case ok:
		return reply{resultType: complete, body: append(append([]byte(`{"skill":`), entry...), '}'), hints: caching}, nil
	case uri == "":
		return reply{}, missing("uri")
	}
	data := append(appendQuoted([]byte(`{"uri":`), uri), '}')
	return reply{}, fault.New(fault.UnknownResource, "No skill is served at %s", fault.Clip(uri)).With(data)
}

// readDirectory answers resources/directory/read. Only skills have directories.
func (s *Server) readDirectory(_ context.Context, r *Request, _ Sender) (reply, error) {
	uri, now := r.Message.P.URI, s.gateway.Catalogue().Now()
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
	return reply{}, gateway.UnknownResource(uri)
}
