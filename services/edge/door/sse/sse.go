// Package sse is the door of HTTP with SSE, the transport of 2024-11-05: a stream for the
// server's messages, and an endpoint to which the client posts. A post may arrive at
// another edge than the one that holds the stream; the bus brings it there. Start with
// Door.Stream and Door.Messages.
package sse

import (
	"context"
	"net/http"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/door"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/protocol"
)

// Config configures the door.
type Config struct {
	Server  *protocol.Server
	Gateway *gateway.Gateway
	// Connections are the connections that the edge keeps open.
	Connections *door.Connections
	Guard       door.Guard
	// Limits of one message; zero fields mean mcp.DefaultLimits.
	Limits mcp.Limits
}

// Door serves the two endpoints of the transport: mount Stream at StreamPath and Messages
// at MessagesPath.
type Door struct{ cfg Config }

// Paths of the endpoints.
const (
	StreamPath   = "/sse"
	MessagesPath = "/messages"
)

// sessionID is the parameter that names the stream of a posted message.
const sessionID = "sessionId"

// New makes the door.
func New(cfg Config) *Door {
	if cfg.Limits.Bytes == 0 {
		cfg.Limits.Bytes = mcp.DefaultLimits().Bytes
	}
	return &Door{cfg: cfg}
}

// Stream serves a client for as long as its stream is open. It answers a GET with the
// endpoint to post to, and then with every message of the server.
func (d *Door) Stream(w http.ResponseWriter, r *http.Request) {
	if !d.admits(w, r, http.MethodGet) {
		return
	}
	if !door.Accepts(r.Header).Events {
		refuse(w, door.NotAcceptable("text/event-stream"))
		return
	}
	who, err := d.admit(r)
	if err != nil {
		refuse(w, err)
		return
	}
	stream := d.cfg.Connections.Last(w, r)
	lease, err := d.cfg.Gateway.Lease(stream.Context(), "sse", who)
	if err != nil {
		refuse(w, err)
		return
	}
	stream.Serve(func(events *door.Events) { d.serve(lease, events) })
}

// serve serves a client until its stream ends.
func (d *Door) serve(lease *gateway.Lease, events *door.Events) {
	defer lease.Close()
	posts := d.cfg.Gateway.OpenMailbox(lease)
	defer posts.Close()
	events.Notify(door.Event("endpoint", []byte(MessagesPath+"?"+sessionID+"="+posts.Address)))
	ctx, cancel := context.WithCancel(lease.Context())
	connection := protocol.NewConnection(protocol.ConnectionConfig{
		Server: d.cfg.Server, Out: messages{events}, Door: "sse", Limits: d.cfg.Limits, Lease: lease,
	})
	defer connection.Wait()
	defer events.End() // wakes everybody who waits for the client to read
	defer cancel()     // the client is gone, and its calls with it
	closing, idle := d.cfg.Server.Closing(), make(chan struct{})
	for {
		select {
		case <-posts.C:
			for _, p := range posts.Take() {
				from, err := d.cfg.Gateway.Posted(ctx, lease, p)
				if err != nil {
					connection.Refuse(err)
					continue
				}
				connection.ReceiveFrom(ctx, from, p.Body)
			}
		case <-closing:
			// Requests in flight are finished first, and the client can still post
			// answers to their questions.
			closing = nil
			connection.Drain()
			go func() {
				connection.Wait()
				close(idle)
			}()
		case <-idle:
			return
		case <-ctx.Done():
			return
		}
	}
}

// admit finds the caller of a request.
func (d *Door) admit(r *http.Request) (gateway.Credentials, error) {
	return d.cfg.Gateway.Admit(r.Context(), "sse", door.Credentials(r))
}

// messages is the protocol.Sender of a client.
type messages struct{ events *door.Events }

// Send implements protocol.Sender.
func (m messages) Send(message []byte) bool { return m.events.Send(door.Event("message", message)) }

// Notify implements protocol.Sender.
func (m messages) Notify(message []byte) { m.events.Notify(door.Event("message", message)) }

// Messages takes a message that a client posts for its stream, which this edge or another
// one holds. 202 says that the edge with the stream has the message; the answer comes
// there.
func (d *Door) Messages(w http.ResponseWriter, r *http.Request) {
	if !d.admits(w, r, http.MethodPost) {
		return
	}
	if err := door.CheckContent(r.Header); err != nil {
		refuse(w, err)
		return
	}
	addresses := r.URL.Query()[sessionID]
	if len(addresses) != 1 {
		refuse(w, malformed())
		return
	}
	who, err := d.admit(r)
	if err != nil {
		refuse(w, err)
		return
	}
	body, err := door.ReadBody(w, r, d.cfg.Limits.Bytes)
	if err != nil {
		refuse(w, err)
		return
	}
	switch err := d.cfg.Gateway.Post(r.Context(), addresses[0], who, body); {
	case err == nil:
		w.WriteHeader(http.StatusAccepted)
	case fault.Is(err, fault.InvalidRequest):
		refuse(w, malformed())
	case fault.Is(err, fault.UnknownSession):
		refuse(w, fault.New(fault.UnknownSession, "no such session; open %s again", StreamPath))
	default:
		refuse(w, err)
	}
}

func malformed() error {
	return fault.New(fault.InvalidRequest, "the URL needs one %s, as in the endpoint event of %s", sessionID, StreamPath)
}

// admits answers requests that this door does not serve, and reports whether it serves
// this one.
func (d *Door) admits(w http.ResponseWriter, r *http.Request, method string) bool {
	if err := d.cfg.Guard.Check(r); err != nil {
		refuse(w, err)
		return false
	}
	if door.CORS(w, r) {
		return false
	}
	if r.Method != method {
		// Clients of later versions first try a POST to the stream's URL, and conclude
		// from this answer that the server has the old transport.
		refuse(w, door.NotAllowed(w, r, method))
		return false
	}
	return true
}

// refuse answers a request that did not reach a stream. Clients do not read the body of a
// 200 there.
func refuse(w http.ResponseWriter, err error) {
	status, body := protocol.ErrorMessage(nil, mcp.V20241105, err)
	if status == http.StatusOK {
		status = http.StatusServiceUnavailable
	}
	door.RefuseWith(w, status, body, err)
}
