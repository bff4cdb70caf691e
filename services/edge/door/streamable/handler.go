// Package streamable is the Streamable HTTP door: one endpoint, POST for every message,
// and for legacy clients GET and DELETE. It reads HTTP, checks that headers and body
// agree, and writes answers as JSON or as server-sent events. Start with
// Handler.ServeHTTP; legacy.go has the versions before 2026-07-28.
package streamable

import (
	"context"
	"net/http"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/door"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/protocol"
	"github.com/busbar-mcp/busbar/services/edge/store"
)

// Config configures the door.
type Config struct {
	Server   *protocol.Server
	Gateway  *gateway.Gateway
	Sessions *store.Sessions
	// Connections are the connections that the edge keeps open.
	Connections *door.Connections
	Guard       door.Guard
	// Limits of one message; zero fields mean mcp.DefaultLimits.
	Limits mcp.Limits
}

// Handler serves the MCP endpoint.
type Handler struct {
	cfg Config
}

// New makes the door.
func New(cfg Config) *Handler {
	if cfg.Limits.Bytes == 0 {
		cfg.Limits.Bytes = mcp.DefaultLimits().Bytes
	}
	return &Handler{cfg: cfg}
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := h.cfg.Guard.Check(r); err != nil {
		writeError(w, nil, "", err)
		return
	}
	if door.CORS(w, r) {
		return
	}
	switch {
	case r.Method == http.MethodPost:
		h.post(w, r)
	case r.Header.Get(mcp.HeaderProtocolVersion) == mcp.Modern:
		writeError(w, nil, mcp.Modern, door.NotAllowed(w, r, http.MethodPost))
	case r.Method == http.MethodGet:
		h.get(w, r)
	case r.Method == http.MethodDelete:
		h.delete(w, r)
	default:
		writeError(w, nil, "", door.NotAllowed(w, r, http.MethodPost, http.MethodGet, http.MethodDelete))
	}
}

func (h *Handler) post(w http.ResponseWriter, r *http.Request) {
	if err := door.CheckContent(r.Header); err != nil {
		door.Refuse(w, nil, "", err)
		return
	}
	takes := door.Accepts(r.Header)
	if !takes.JSON && !takes.Events {
		writeError(w, nil, "", door.NotAcceptable("application/json or text/event-stream"))
		return
	}
	// Before the body: nothing is read of a caller that may not come in.
	who, err := h.admit(r)
	if err != nil {
		writeError(w, nil, r.Header.Get(mcp.HeaderProtocolVersion), err)
		return
	}
	body, err := door.ReadBody(w, r, h.cfg.Limits.Bytes)
	if err != nil {
		writeError(w, nil, "", err)
		return
	}
	if mcp.IsBatch(body) && h.batch(w, r, who, body) {
		return
	}
	m, err := mcp.Parse(body, h.cfg.Limits)
	if err != nil {
		// The version of a client whose message cannot be read is unknown; its header is
		// the best guess.
		writeError(w, &m, r.Header.Get(mcp.HeaderProtocolVersion), err)
		return
	}
	version, modern, err := eraOf(r.Header, &m)
	if err != nil {
		writeError(w, &m, mcp.Modern, err)
		return
	}
	out := newWriter(w, takes)
	defer out.close()
	req := &protocol.Request{
		Message: &m, Door: "streamable", Version: version, Credentials: who,
		Traceparent: r.Header.Get("Traceparent"), Tracestate: r.Header.Get("Tracestate"),
	}
	if modern {
		ctx := r.Context()
		if m.Kind == mcp.Request && m.Method == mcp.MethodListen {
			out.lasting = h.cfg.Connections.Last(w, r)
			ctx = out.lasting.Context()
		}
		h.modern(ctx, req, r.Header, out)
		return
	}
	h.legacy(r, req, out)
}

func (h *Handler) modern(ctx context.Context, req *protocol.Request, header http.Header, out *writer) {
	m := req.Message
	switch m.Kind {
	case mcp.Notification:
		out.status(http.StatusAccepted)
		return
	case mcp.Response:
		h.cfg.Server.Refuse(req, out, fault.New(fault.InvalidRequest, "clients of %s send no responses", mcp.Modern))
		return
	}
	if m.Method == mcp.MethodListen && !out.takes.Events {
		out.status(http.StatusNotAcceptable)
		return
	}
	now, err := h.cfg.Gateway.See(ctx, req.Credentials)
	if err == nil {
		err = checkHeaders(header, m, now)
	}
	if err != nil {
		h.cfg.Server.Refuse(req, out, err)
		return
	}
	h.cfg.Server.Handle(ctx, req, out)
}

// admit finds the caller of a request.
func (h *Handler) admit(r *http.Request) (gateway.Credentials, error) {
	return h.cfg.Gateway.Admit(r.Context(), "streamable", door.Credentials(r))
}

func writeError(w http.ResponseWriter, m *mcp.Message, version string, err error) {
	door.Refuse(w, m, version, err)
}
