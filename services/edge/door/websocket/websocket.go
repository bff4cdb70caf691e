// Package websocket is the door at /ws: the messages of the API of version 1.0.0, many of
// them concurrently, or MCP over the same socket. docs/reference/doors.md has the
// messages. Start with Handler.ServeHTTP; connection.go handles the messages, requests.go
// answers them.
package websocket

import (
	"context"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/api"
	"github.com/busbar-mcp/busbar/services/edge/door"
	"github.com/busbar-mcp/busbar/services/edge/protocol"
)

// Path is the path at which to mount the door.
const Path = "/ws"

// Subprotocols by which a client may choose. A client without one chooses with its first
// message.
const (
	MCP    = "mcp"
	Busbar = "busbar"
)

// Config configures the door.
type Config struct {
	API         *api.Server
	Server      *protocol.Server
	Connections *door.Connections
	Guard       door.Guard
	// Version is the edge's version, which initialize returns.
	Version string
	// Limits of one message; zero fields mean mcp.DefaultLimits.
	Limits mcp.Limits
}

// Handler serves Path.
type Handler struct{ cfg Config }

// New makes the door.
func New(cfg Config) *Handler {
	if cfg.Limits.Bytes == 0 {
		cfg.Limits.Bytes = mcp.DefaultLimits().Bytes
	}
	return &Handler{cfg}
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	err := h.cfg.Guard.Check(r)
	var lease door.Lease
	if err == nil {
		lease, err = door.NewLease(h.cfg.API, r, "websocket")
	}
	if err != nil {
		door.RefuseProblem(w, err)
		return
	}
	defer lease.Close()
	h.cfg.Connections.Serve(w, r, door.SocketConfig{
		Protocols: []string{Busbar, MCP}, Limit: h.cfg.Limits.Bytes, Closing: h.cfg.Server.Closing(), Ended: lease.Context().Done(),
	}, func(s *door.Socket) door.Connection {
		t := &undecided{h: h, lease: lease, socket: s}
		switch s.Protocol {
		case Busbar:
			t.Connection = newConnection(h, lease, s)
		case MCP:
			t.Connection = t.mcp()
		}
		return t
	})
}

// undecided becomes a connection of one protocol or the other when its first message
// arrives.
type undecided struct {
	door.Connection
	h      *Handler
	lease  door.Lease
	socket *door.Socket
}

func (u *undecided) mcp() door.Connection {
	return protocol.NewConnection(protocol.ConnectionConfig{
		Server: u.h.cfg.Server, Out: u.socket, Door: "websocket", Limits: u.h.cfg.Limits, Modern: true, Lease: u.lease.Lease,
	})
}

// Receive implements door.Connection.
func (u *undecided) Receive(ctx context.Context, message []byte) {
	if u.Connection == nil {
		var first struct {
			Version jsontext.Value `json:"jsonrpc,omitzero"`
		}
		if json.Unmarshal(message, &first) == nil && first.Version != nil || mcp.IsBatch(message) {
			u.Connection = u.mcp()
		} else {
			u.Connection = newConnection(u.h, u.lease, u.socket)
		}
	}
	u.Connection.Receive(ctx, message)
}

// Drain implements door.Connection.
func (u *undecided) Drain() {
	if u.Connection == nil {
		u.Connection = newConnection(u.h, u.lease, u.socket) // it is too late to choose
	}
	u.Connection.Drain()
}

// Wait implements door.Connection.
func (u *undecided) Wait() {
	if u.Connection != nil {
		u.Connection.Wait()
	}
}
