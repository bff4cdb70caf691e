// Package streamable is the Streamable HTTP door: one endpoint, POST for every
// message, and for legacy clients GET and DELETE. It reads HTTP, checks that
// headers and body agree, and writes answers as JSON or as server-sent events.
package streamable

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/era"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/session"
)

// Config says what the door stands before.
type Config struct {
	Server   *era.Server
	Gateway  *gateway.Gateway
	Sessions session.Store
	Guard    Guard
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

// bodyTime is how long a client may take to send a body.
const bodyTime = 10 * time.Second

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := h.cfg.Guard.Check(r); err != nil {
		writeError(w, nil, "", err)
		return
	}
	if cors(w, r) {
		return
	}
	switch {
	case r.Method == http.MethodPost:
		h.post(w, r)
	case r.Header.Get(mcp.HeaderProtocolVersion) == mcp.Modern:
		w.Header().Set("Allow", "POST")
		w.WriteHeader(http.StatusMethodNotAllowed)
	case r.Method == http.MethodGet:
		h.get(w, r)
	case r.Method == http.MethodDelete:
		h.delete(w, r)
	default:
		w.Header().Set("Allow", "POST, GET, DELETE")
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

func (h *Handler) post(w http.ResponseWriter, r *http.Request) {
	if status := checkContent(r.Header); status != 0 {
		w.WriteHeader(status)
		return
	}
	takes := accepted(r.Header["Accept"])
	if !takes.json && !takes.sse {
		w.WriteHeader(http.StatusNotAcceptable)
		return
	}
	body, err := h.read(w, r)
	if err != nil {
		writeError(w, nil, "", err)
		return
	}
	if mcp.IsBatch(body) && h.batch(w, r, body) {
		return
	}
	m, err := mcp.Parse(body, h.cfg.Limits)
	if err != nil {
		// A client that cannot be read has no era; its header is the best guess.
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
	req := &era.Request{Message: &m, Door: "streamable", Version: version, Credentials: credentials(r.Header)}
	if modern {
		h.modern(r.Context(), req, r.Header, out)
		return
	}
	h.legacy(r, req, out)
}

func (h *Handler) modern(ctx context.Context, req *era.Request, header http.Header, out *writer) {
	m := req.Message
	switch m.Kind {
	case mcp.Notification:
		out.status(http.StatusAccepted)
		return
	case mcp.Response:
		h.cfg.Server.Refuse(req, out, fault.New(fault.InvalidRequest, "clients of %s send no responses", mcp.Modern))
		return
	}
	if m.Method == mcp.MethodListen && !out.takes.sse {
		out.status(http.StatusNotAcceptable)
		return
	}
	if err := checkHeaders(header, m, h.cfg.Gateway.Catalogue().Now()); err != nil {
		h.cfg.Server.Refuse(req, out, err)
		return
	}
	h.cfg.Server.Handle(ctx, req, out)
}

// read reads the body within its time and size.
func (h *Handler) read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	limit := int64(h.cfg.Limits.Bytes)
	tooLarge := func() error {
		w.Header().Set("Connection", "close")
		return fault.New(fault.TooLarge, "the body is larger than %d bytes", limit)
	}
	if r.ContentLength > limit {
		return nil, tooLarge()
	}
	control := http.NewResponseController(w)
	// A deadline set only when it has passed: nearly every body is here already,
	// and a timer costs less than two deadlines. Not every writer has them (a
	// test's recorder); the server's do.
	slow := time.AfterFunc(bodyTime, func() { _ = control.SetReadDeadline(time.Now()) })
	defer slow.Stop()
	if n := r.ContentLength; n >= 0 {
		body := make([]byte, n)
		if _, err := io.ReadFull(r.Body, body); err != nil {
			return nil, fault.New(fault.InvalidRequest, "the body ended early").Because(err)
		}
		return body, nil
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return nil, tooLarge()
	case err != nil:
		return nil, fault.New(fault.InvalidRequest, "the body ended early").Because(err)
	}
	return body, nil
}

func writeError(w http.ResponseWriter, m *mcp.Message, version string, err error) {
	status, body := era.ErrorMessage(m, version, err)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
