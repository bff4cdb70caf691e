package protocol

import (
	"bytes"
	"context"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/sourcegraph/conc"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/store"
)

// defaultLogLevel is the level for a client that never sent logging/setLevel.
const defaultLogLevel = "info"

// Bounds of the resources that one session subscribes to: their number, and the bytes of their
// URIs together, wherever the session is kept.
const (
	//limit:connection resources that a session or `subscriptions/listen` follows | `too_large`
	maxSubscribed      = 200
	maxSubscribedBytes = 32 << 10
)

// Initialize handles initialize. It returns the session that it opens, which the door keeps, and
// the response to send then.
func (s *Server) Initialize(ctx context.Context, r *Request) (*store.Session, []byte, error) {
	now, err := s.enter(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	p := r.Message.P
	if p.InitVersion == "" {
		return nil, nil, missing("protocolVersion")
	}
	version := mcp.Negotiated(p.InitVersion)
	var about mcp.Implementation
	if p.InitInfo != nil {
		if err := json.Unmarshal(p.InitInfo, &about); err != nil {
			return nil, nil, fault.New(fault.InvalidParams, "params.clientInfo needs name and version, both strings").Because(err)
		}
	}
	n := &store.Session{Version: version, ClientName: about.Name, ClientVer: about.Version, Capabilities: slices.Clone(p.InitCapabilities)}
	b := openResponse(nil, r.Message.ID)
	b = appendQuoted(append(b, `,"result":{"protocolVersion":`...), version)
	b = append(b, `,"capabilities":{"logging":{},`...)
	b = append(b, inner(s.caps)...)
	b = append(append(b, `},"serverInfo":`...), s.info...)
	b = appendInstructions(b, now)
	return n, append(b, `}}`...), nil
}

// legacyClient is the client as its session describes it, and the level of logs that it wants.
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

// withoutTasks are the capabilities of a legacy client without tasks: its version has no tasks of
// this kind, whatever extensions it declares.
func withoutTasks(capabilities []byte) []byte {
	if !mcp.Declares(capabilities, mcp.ExtensionTasks) {
		return capabilities
	}
	var all map[string]jsontext.Value
	if json.Unmarshal(capabilities, &all) != nil {
		return nil
	}
	delete(all, "extensions")
	rest, err := json.Marshal(all, json.Deterministic(true))
	if err != nil {
		return nil
	}
	return rest
}

func (s *Server) setLevel(ctx context.Context, r *Request, _ Sender) (reply, error) {
	level := r.Message.P.Level
	if err := s.admit(ctx, r); err != nil {
		return reply{}, err
	}
	if logLevel(level) == 0 {
		return reply{}, fault.New(fault.InvalidParams, "params.level must be one of %v", mcp.LogLevels)
	}
	if r.Session == nil {
		return result(nil), nil
	}
	return result(nil), s.changeSession(ctx, r, func(n *store.Session) error {
		n.LogLevel = level
		return nil
	})
}

// subscribe answers resources/subscribe and unsubscribe. The session remembers, so that the
// client's stream may be at any edge.
func (s *Server) subscribe(ctx context.Context, r *Request, _ Sender) (reply, error) {
	uri, on := r.Message.P.URI, r.Message.Method == mcp.MethodSubscribe
	now, err := s.enter(ctx, r)
	if err != nil {
		return reply{}, err
	}
	switch {
	case uri == "":
		return reply{}, missing("uri")
	case r.Session == nil:
		return reply{}, fault.New(fault.InvalidRequest, "%s needs a session: send initialize first, and its Mcp-Session-Id with every request", r.Message.Method)
	case on:
		if _, ok := now.Resource(uri); !ok {
			return reply{}, s.gateway.Absent(gateway.UnknownResource(uri))
		}
	}
	return result(nil), s.changeSession(ctx, r, func(n *store.Session) error {
		rest := slices.DeleteFunc(slices.Clone(n.Subscribed), func(u string) bool { return u == uri })
		if on {
			rest = append(rest, uri)
		}
		if len(rest) > maxSubscribed {
			return fault.New(fault.TooLarge, "a session subscribes to at most %d resources", maxSubscribed)
		}
		size := 0
		for _, u := range rest {
			size += len(u)
		}
		if size > maxSubscribedBytes {
			return fault.New(fault.TooLarge, "the URIs that a session subscribes to have at most %d bytes together", maxSubscribedBytes)
		}
		n.Subscribed = rest
		return nil
	})
}

// changeSession changes a session where it is kept: in its connection, or on the bus.
func (s *Server) changeSession(ctx context.Context, r *Request, f func(*store.Session) error) error {
	if r.connection != nil {
		return r.connection.change(f)
	}
	return s.sessions.Change(ctx, r.Session.ID, f)
}

// Batch answers a batch of 2025-03-26: its requests run concurrently, each as if it had come
// alone. It returns the responses in the order of the requests as a JSON array, or nil if none is
// owed. base has what all messages have in common. Notifications ahead of a response are dropped,
// and a tool that asks for input gets a client that cannot be asked.
func (s *Server) Batch(ctx context.Context, base Request, entries []mcp.Entry) []byte {
	outs := make([]single, len(entries))
	var wg conc.WaitGroup
	for i := range entries {
		r := base
		r.Message = &entries[i].Message
		switch {
		case entries[i].Err != nil:
			s.Refuse(&r, &outs[i], entries[i].Err)
		case r.Message.Method == mcp.MethodInitialize:
			s.Refuse(&r, &outs[i], fault.New(fault.InvalidRequest, "initialize cannot be part of a batch"))
		default:
			if rest := s.Begin(ctx, &r, &outs[i]); rest != nil {
				wg.Go(rest)
			}
		}
	}
	wg.Wait()
	var responses [][]byte
	for _, x := range outs {
		if x.response != nil {
			responses = append(responses, x.response)
		}
	}
	if responses == nil {
		return nil
	}
	b := append([]byte{'['}, bytes.Join(responses, []byte{','})...)
	return append(b, ']')
}

// single is a Responder that takes only the response.
type single struct{ response []byte }

func (*single) Notify([]byte)                            {}
func (*single) Send([]byte) bool                         { return false }
func (x *single) Respond(_ int, message []byte, _ error) { x.response = message }
