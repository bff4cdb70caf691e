package graphql

import (
	"context"
	"net/http"
	"sync"

	"github.com/coder/websocket"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	gql "github.com/graph-gophers/graphql-go"
	"github.com/sourcegraph/conc/panics"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/door"
)

// protocol is the subprotocol for subscriptions (github.com/enisdenjo/graphql-ws,
// PROTOCOL.md).
const protocol = "graphql-transport-ws"

// Codes of the protocol with which the connection is closed.
const (
	closeInvalid      = websocket.StatusCode(4400)
	closeUnauthorized = door.CloseUnauthorized
	closeTaken        = websocket.StatusCode(4409)
	closeTwice        = websocket.StatusCode(4429)
)

// Bounds of one connection.
const (
	//limit:connection concurrent operations of a WebSocket at `/graphql` | `overloaded`
	maxOperations = 64
	maxID         = 128
)

// subscribe serves a client that subscribes.
func (h *Handler) subscribe(w http.ResponseWriter, r *http.Request) {
	lease, err := door.NewLease(h.cfg.API, r, "graphql")
	if err != nil {
		refuse(w, err)
		return
	}
	defer lease.Close()
	h.cfg.Connections.Serve(w, r, door.SocketConfig{
		Protocols: []string{protocol}, MustOffer: true, Limit: h.cfg.Limits.Bytes, Closing: h.cfg.Closing, Ended: lease.Context().Done(),
	}, func(s *door.Socket) door.Connection {
		return &connection{h: h, lease: lease, out: s, operations: map[string]context.CancelFunc{}}
	})
}

// connection is the socket of one client.
type connection struct {
	h        *Handler
	lease    door.Lease
	out      *door.Socket
	begun    bool // connection_init came
	draining bool
	running  sync.WaitGroup

	mu         sync.Mutex
	operations map[string]context.CancelFunc
}

type frame struct {
	ID      string         `json:"id,omitzero"`
	Type    string         `json:"type"`
	Payload jsontext.Value `json:"payload,omitzero"`
}

// Drain implements door.Connection.
func (c *connection) Drain() { c.draining = true }

// Wait implements door.Connection.
func (c *connection) Wait() { c.running.Wait() }

// Receive implements door.Connection.
func (c *connection) Receive(ctx context.Context, b []byte) {
	var f frame
	if err := mcp.Valid(b, c.h.cfg.Limits); err != nil {
		c.out.Close(closeInvalid, string(fault.From(err).Reason))
		return
	}
	if err := json.Unmarshal(b, &f); err != nil {
		c.out.Close(closeInvalid, "not a message of "+protocol)
		return
	}
	switch f.Type {
	case "connection_init":
		if c.begun {
			c.out.Close(closeTwice, "connection_init came twice")
			return
		}
		c.begun = true
		c.send(frame{Type: "connection_ack"})
	case "ping":
		c.send(frame{Type: "pong", Payload: f.Payload})
	case "pong":
	case "complete":
		c.stop(f.ID)
	case "subscribe":
		c.subscribe(ctx, f)
	default:
		c.out.Close(closeInvalid, "there is no message of this type")
	}
}

func (c *connection) subscribe(ctx context.Context, f frame) {
	if !c.begun {
		c.out.Close(closeUnauthorized, "connection_init comes first")
		return
	}
	if f.ID == "" || len(f.ID) > maxID {
		c.out.Close(closeInvalid, "an id has 1 to 128 bytes")
		return
	}
	op, err := c.h.read(c.lease.Caller(), f.Payload)
	c.mu.Lock()
	_, taken := c.operations[f.ID]
	switch {
	case taken:
		c.mu.Unlock()
		c.out.Close(closeTaken, "Subscriber for this id already exists")
		return
	case err != nil:
	case c.draining:
		err = fault.New(fault.Unavailable, "this edge is stopping; connect again")
	case len(c.operations) >= maxOperations:
		err = fault.New(fault.Overloaded, "%d operations are in flight already", maxOperations)
	}
	if err != nil {
		c.mu.Unlock()
		c.fail(f.ID, refusal(err))
		return
	}
	ctx, c.operations[f.ID] = context.WithCancel(ctx)
	c.mu.Unlock()
	c.running.Go(func() {
		var end frame
		caught := panics.Try(func() { end = c.run(ctx, f.ID, op) })
		if caught != nil {
			c.h.LogPanic(ctx, caught.Value)
			end = failed(f.ID, refusal(fault.New(fault.Internal, "internal error")))
		}
		left := ctx.Err() != nil
		c.stop(f.ID)
		c.mu.Lock()
		delete(c.operations, f.ID)
		c.mu.Unlock()
		if !left { // a client that completed it hears nothing more
			c.send(end)
		}
	})
}

// run carries out an operation and returns its last message.
func (c *connection) run(ctx context.Context, id string, op *operation) frame {
	var sources sync.WaitGroup
	defer sources.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ctx, release := c.h.cfg.API.Track(ctx)
	defer release()
	ctx = context.WithValue(context.WithValue(ctx, callerKey{}, c.lease.Caller()), runningKey{}, &sources)
	ctx = context.WithValue(ctx, leaseKey{}, c.lease.Lease)
	responses, err := op.schema.Subscribe(ctx, op.query, op.name, op.variables)
	if err != nil {
		return failed(id, refusal(err))
	}
	for v := range responses {
		r, ok := v.(*gql.Response)
		if !ok {
			continue
		}
		complete(r)
		if r.Data == nil && len(r.Errors) > 0 {
			return failed(id, r)
		}
		payload, err := encode(r)
		if err != nil {
			return failed(id, refusal(err))
		}
		if !c.send(frame{ID: id, Type: "next", Payload: payload}) {
			break
		}
	}
	return frame{ID: id, Type: "complete"}
}

// stop ends an operation.
func (c *connection) stop(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if stop := c.operations[id]; stop != nil {
		stop()
	}
}

func (c *connection) send(f frame) bool {
	b, err := json.Marshal(f)
	return err == nil && c.out.Send(b)
}

func (c *connection) fail(id string, r *gql.Response) { c.send(failed(id, r)) }

// failed is the message that ends an operation which was not carried out.
func failed(id string, r *gql.Response) frame {
	b, err := json.Marshal(r.Errors, json.Deterministic(true))
	if err != nil {
		b = []byte(`[{"message":"internal error"}]`)
	}
	return frame{ID: id, Type: "error", Payload: b}
}
