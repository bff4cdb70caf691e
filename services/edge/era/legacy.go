package era

import (
	"context"
	"slices"

	"github.com/go-json-experiment/json"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/session"
)

// defaultLogLevel is what a client gets that never sent logging/setLevel.
const defaultLogLevel = "info"

// legacy answers a request of 2024-11-05 to 2025-11-25.
func (s *Server) legacy(ctx context.Context, r *Request, x Exchange) {
	m := r.Message
	if kind, ok := lists[m.Method]; ok {
		s.list(r, x, kind)
		return
	}
	switch m.Method {
	case mcp.MethodPing:
		s.result(r, x, complete, nil, nil, "")
	case mcp.MethodSetLevel:
		s.setLevel(ctx, r, x)
	case mcp.MethodSubscribe, mcp.MethodUnsubscribe:
		s.subscribe(ctx, r, x)
	case mcp.MethodToolsCall, mcp.MethodResourcesRead, mcp.MethodPromptsGet, mcp.MethodComplete:
		client, level := legacyClient(r)
		s.call(ctx, r, x, client, level)
	default:
		s.Refuse(r, x, methodNotFound(m.Method))
	}
}

// legacyClient is what a session says of its client, and the level of logs it
// wants.
func legacyClient(r *Request) (*busv1.Client, string) {
	if r.Session == nil {
		return &busv1.Client{}, defaultLogLevel
	}
	n := r.Session
	level := n.LogLevel
	if level == "" {
		level = defaultLogLevel
	}
	return &busv1.Client{Name: n.ClientName, Version: n.ClientVer, Capabilities: withoutTasks(n.Capabilities)}, level
}

// Initialize handles initialize. It returns the session it opens, which the
// door keeps, and the response to send then; nil when it has refused.
func (s *Server) Initialize(r *Request, x Exchange) (*session.Session, []byte) {
	p := r.Message.P
	if p.InitVersion == "" {
		s.Refuse(r, x, fault.New(fault.InvalidParams, "params.protocolVersion is missing"))
		return nil, nil
	}
	// A version unknown here, or one without a handshake, gets the newest that
	// has one; the client decides whether it can live with that.
	version := p.InitVersion
	if !mcp.IsLegacy(version) {
		version = mcp.LegacyLatest
	}
	var about mcp.Implementation
	if p.InitInfo != nil {
		if err := json.Unmarshal(p.InitInfo, &about); err != nil {
			s.Refuse(r, x, fault.New(fault.InvalidParams, "params.clientInfo needs name and version, both strings").Because(err))
			return nil, nil
		}
	}
	n := &session.Session{Version: version, ClientName: about.Name, ClientVer: about.Version, Capabilities: slices.Clone(p.InitCapabilities)}
	b := openResponse(nil, r.Message.ID)
	b = appendQuoted(append(b, `,"result":{"protocolVersion":`...), version)
	b = append(b, `,"capabilities":{"logging":{},`...)
	b = append(b, inner(s.caps)...)
	b = append(append(b, `},"serverInfo":`...), s.info...)
	b = append(b, s.extra...)
	return n, append(b, `}}`...)
}

func (s *Server) setLevel(ctx context.Context, r *Request, x Exchange) {
	level := r.Message.P.Level
	if logLevel(level) == 0 {
		s.Refuse(r, x, fault.New(fault.InvalidParams, "params.level must be one of %v", mcp.LogLevels))
		return
	}
	if r.Session != nil {
		err := s.changeSession(ctx, r, func(n *session.Session) error {
			n.LogLevel = level
			return nil
		})
		if err != nil {
			s.Refuse(r, x, err)
			return
		}
	}
	s.result(r, x, complete, nil, nil, "")
}

// changeSession changes a session where its transport keeps it: on the bus when
// it has an id, in the connection otherwise.
func (s *Server) changeSession(ctx context.Context, r *Request, f func(*session.Session) error) error {
	if r.Session.ID != "" {
		return s.sessions.Change(ctx, r.Session.ID, f)
	}
	for {
		old := r.Peer.Session.Load()
		changed := *old
		if err := f(&changed); err != nil {
			return err
		}
		if r.Peer.Session.CompareAndSwap(old, &changed) {
			return nil
		}
	}
}
