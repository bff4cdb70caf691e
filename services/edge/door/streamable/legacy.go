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

// legacy handles a POST of 2025-11-25 or earlier.
func (h *Handler) legacy(r *http.Request, req *protocol.Request, out *writer) {
	m := req.Message
	if m.Kind == mcp.Request && m.Method == mcp.MethodInitialize {
		h.initialize(r.Context(), req, out)
		return
	}
	s, err := h.session(r, req.Credentials)
	if err != nil {
		h.cfg.Server.Refuse(req, out, err)
		return
	}
	// Some clients omit the session header. Their requests do not need the session, so
	// they are served without its content.
	if s != nil {
		req.Session, req.Version = s, s.Version
		var release func()
		req.InFlight, release = h.cfg.Server.InFlight(s.ID)
		defer release()
		if out.takes.Events {
			req.Resumable = out
		}
	}
	if m.Kind != mcp.Request {
		h.cfg.Server.Handle(r.Context(), req, out)
		out.status(http.StatusAccepted)
		return
	}
	// Before 2026-07-28 a lost connection does not mean that the client gave up.
	h.cfg.Server.Handle(context.WithoutCancel(r.Context()), req, out)
}

// batch answers a batch of a client of 2025-03-26. It reports false for other clients,
// whose versions have no batches.
func (h *Handler) batch(w http.ResponseWriter, r *http.Request, who gateway.Credentials, body []byte) bool {
	s, err := h.session(r, who)
	if err != nil {
		writeError(w, nil, mcp.V20250326, err)
		return true
	}
	if header := r.Header.Get(mcp.HeaderProtocolVersion); s == nil && header != mcp.V20250326 || s != nil && s.Version != mcp.V20250326 {
		return false
	}
	entries, err := mcp.ParseBatch(body, h.cfg.Limits)
	if err != nil {
		writeError(w, nil, mcp.V20250326, err)
		return true
	}
	base := protocol.Request{Door: "streamable", Version: mcp.V20250326, Credentials: who, Session: s}
	if s != nil {
		var release func()
		base.InFlight, release = h.cfg.Server.InFlight(s.ID)
		defer release()
	}
	out := newWriter(w, door.Accept{JSON: true})
	defer out.close()
	if responses := h.cfg.Server.Batch(context.WithoutCancel(r.Context()), base, entries); responses != nil {
		out.Respond(http.StatusOK, responses, nil)
	}
	return true
}

func (h *Handler) initialize(ctx context.Context, req *protocol.Request, out *writer) {
	s, response, err := h.cfg.Server.Initialize(ctx, req)
	if err == nil {
		req.Version = s.Version
		err = h.create(ctx, req, s)
	}
	if err != nil {
		h.cfg.Server.Refuse(req, out, err)
		return
	}
	out.header().Set(mcp.HeaderSessionID, s.ID)
	out.Respond(http.StatusOK, response, nil)
}

// create stores the session of a client that asks for one.
func (h *Handler) create(ctx context.Context, req *protocol.Request, s *store.Session) error {
	who, err := h.cfg.Gateway.Authenticate(ctx, req.Credentials)
	if err != nil {
		return err
	}
	s.Principal, s.Account = who.ID(), gateway.Account(who, req.Credentials)
	return h.cfg.Sessions.Create(ctx, s)
}

// session returns the session that a request names, nil if it names none.
func (h *Handler) session(r *http.Request, c gateway.Credentials) (*store.Session, error) {
	ids := r.Header[mcp.HeaderSessionID]
	switch {
	case len(ids) == 0 || ids[0] == "":
		return nil, nil
	case len(ids) > 1:
		return nil, fault.New(fault.InvalidRequest, "header %s appears twice", mcp.HeaderSessionID)
	}
	s, err := h.cfg.Sessions.Get(r.Context(), ids[0])
	if err != nil {
		return nil, err
	}
	who, err := h.cfg.Gateway.Authenticate(r.Context(), c)
	if err == nil && who.ID() != s.Principal {
		err = store.UnknownSession() // another principal's session is treated as unknown
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// named is session for requests that make no sense without one.
func (h *Handler) named(r *http.Request) (*store.Session, gateway.Credentials, error) {
	who, err := h.admit(r)
	if err != nil {
		return nil, who, err
	}
	s, err := h.session(r, who)
	if s == nil && err == nil {
		err = fault.New(fault.InvalidRequest, "header %s is missing; send initialize first", mcp.HeaderSessionID)
	}
	return s, who, err
}

// get is a legacy client's stream for messages that belong to no request.
func (h *Handler) get(w http.ResponseWriter, r *http.Request) {
	if !door.Accepts(r.Header).Events {
		writeError(w, nil, mcp.LegacyLatest, door.NotAcceptable("text/event-stream"))
		return
	}
	opened, who, err := h.named(r)
	if err != nil {
		writeError(w, nil, mcp.LegacyLatest, err)
		return
	}
	since := r.Header.Get(headerLastEventID)
	if since != "" && !protocol.IsChangeID(since) {
		h.resume(w, r, opened, who, since)
		return
	}
	out := newWriter(w, door.Accept{Events: true})
	out.lasting = h.cfg.Connections.Last(w, r)
	lease, err := h.cfg.Gateway.Lease(out.lasting.Context(), "streamable", who)
	if err != nil {
		writeError(w, nil, opened.Version, err)
		return
	}
	changes, err := h.cfg.Server.ChangesOf(lease, opened, since)
	if err != nil {
		lease.Close()
		writeError(w, nil, opened.Version, err)
		return
	}
	out.last(func(out *writer) {
		defer lease.Close()
		changes(out)
	})
}

const headerLastEventID = "Last-Event-Id"

// resume lets a legacy client come back to an answer.
func (h *Handler) resume(w http.ResponseWriter, r *http.Request, s *store.Session, who gateway.Credentials, id string) {
	out := newWriter(w, door.Accept{Events: true})
	inFlight, release := h.cfg.Server.InFlight(s.ID)
	defer release()
	rest, err := h.cfg.Server.Resume(r.Context(), &protocol.Request{
		Door: "streamable", Version: s.Version, Session: s, InFlight: inFlight, Resumable: out, Credentials: who,
	}, id)
	if err != nil {
		writeError(w, nil, s.Version, err)
		return
	}
	defer out.close()
	out.open()
	out.events.Notify(nil) // the rest may take long
	rest()
}

func (h *Handler) delete(w http.ResponseWriter, r *http.Request) {
	s, _, err := h.named(r)
	if err == nil {
		err = h.cfg.Sessions.Delete(r.Context(), s.ID)
	}
	if err != nil {
		writeError(w, nil, mcp.LegacyLatest, err)
		return
	}
	h.cfg.Server.Ended(s.ID)
	w.WriteHeader(http.StatusNoContent)
}
