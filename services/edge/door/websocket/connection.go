package websocket

import (
	"context"
	"slices"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/sourcegraph/conc/panics"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/api"
	"github.com/busbar-mcp/busbar/services/edge/door"
	"github.com/busbar-mcp/busbar/services/edge/forms"
)

// Bounds of one connection.
const (
	// MaxInFlight is how many requests may be unanswered. A batch counts as one.
	//limit:connection concurrent requests of a WebSocket at `/ws` | `overloaded`
	MaxInFlight = 64
	// maxInFlightBytes bounds their total size, as they were sent.
	maxInFlightBytes = 16 << 20
	//limit:message calls of a batch at `/ws` | `too_large`
	maxBatch = 10_000
)

// Codes of errors.
const (
	codeFailed   = -32000
	codeNoMethod = -32601
)

// message is a message of the client.
type message struct {
	Type string         `json:"type"`
	ID   jsontext.Value `json:"id"`
	Data jsontext.Value `json:"data,omitzero"`
}

// answer is a message of the server, for the request with the id.
type answer struct {
	Type  string         `json:"type"`
	ID    jsontext.Value `json:"id"`
	Data  any            `json:"data,omitzero"`
	Error *failure       `json:"error,omitzero"`
}

type failure struct {
	Code    int            `json:"code"`
	Message string         `json:"message"`
	Data    map[string]any `json:"data"`
}

// request is a message that is being answered.
type request struct {
	*connection
	message
	kind
}

// connection is the API of version 1.0.0 over one socket.
type connection struct {
	h        *Handler
	lease    door.Lease
	out      *door.Socket
	draining bool
	running  sync.WaitGroup

	mu       sync.Mutex
	inFlight map[string]context.CancelFunc
	bytes    int // total size of the requests in flight
}

func newConnection(h *Handler, lease door.Lease, out *door.Socket) *connection {
	return &connection{h: h, lease: lease, out: out, inFlight: map[string]context.CancelFunc{}}
}

// Drain implements door.Connection.
func (c *connection) Drain() { c.draining = true }

// Wait implements door.Connection.
func (c *connection) Wait() { c.running.Wait() }

// Receive implements door.Connection.
func (c *connection) Receive(ctx context.Context, b []byte) {
	m, err := c.read(b)
	r := &request{c, m, kinds[m.Type]}
	if err != nil {
		r.fail(err)
		return
	}
	if m.Type == cancelType {
		c.cancel(m.ID)
		return
	}
	if c.draining {
		err = fault.New(fault.Unavailable, "this edge is stopping; connect again")
	} else {
		ctx, err = c.begin(ctx, m.ID, len(b))
	}
	if err != nil {
		r.fail(err)
		return
	}
	ctx, release := c.h.cfg.API.TrackAny(ctx) // each result in it is one message
	c.running.Go(func() {
		defer release()
		var v any
		var err error
		caught := panics.Try(func() { v, err = r.do(r, ctx) })
		c.end(m.ID, len(b)) // before the answer, after which the id may be used again
		switch {
		case caught != nil:
			r.fail(fault.From(caught.AsError()))
		case err != nil:
			r.fail(err)
		default:
			r.send(r.kind.answer, v)
		}
	})
}

// read reads a message strictly. Even if it refuses a message, it may return its id.
func (c *connection) read(b []byte) (m message, err error) {
	if err := mcp.Valid(b, c.h.cfg.Limits); err != nil {
		return m, err
	}
	if err := json.Unmarshal(b, &m, json.RejectUnknownMembers(true)); err != nil || m.Type == "" {
		m.ID = nil
		return m, fault.New(fault.InvalidRequest, `a message is {"type":…,"id":…,"data":{…}}`).Because(err)
	}
	if !validID(m.ID) {
		m.ID = nil
		return m, fault.New(fault.InvalidRequest, "id must be an integer, or a string of 1 to %d bytes", maxID)
	}
	if _, known := kinds[m.Type]; !known && m.Type != cancelType {
		return m, fault.New(fault.MethodNotFound, "there is no message of type %s", fault.Clip(m.Type))
	}
	if m.Data != nil && m.Data.Kind() != '{' {
		return m, fault.New(fault.InvalidRequest, "data must be an object").Toward("send " + m.Type + " with data that is an object")
	}
	return m, nil
}

const maxID = 128

// cancelType is the message that ends a request. It has no answer of its own.
const cancelType = "cancel"

func validID(id jsontext.Value) bool {
	switch id.Kind() {
	case '"':
		return len(id) > 2 && len(id) <= maxID+2
	case '0':
		return len(id) <= 16 && !slices.ContainsFunc(id, func(c byte) bool { return c == '.' || c == 'e' || c == 'E' })
	}
	return false
}

// begin makes room for a request.
func (c *connection) begin(ctx context.Context, id jsontext.Value, size int) (context.Context, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, there := c.inFlight[string(id)]; there {
		return nil, fault.New(fault.InvalidRequest, "a request with this id is in flight")
	}
	if len(c.inFlight) >= MaxInFlight {
		return nil, fault.New(fault.Overloaded, "%d requests are in flight already; wait for an answer", MaxInFlight)
	}
	if c.bytes+size > maxInFlightBytes {
		return nil, fault.New(fault.Overloaded, "the requests in flight have %d bytes together already; wait for an answer", maxInFlightBytes)
	}
	c.bytes += size
	ctx, c.inFlight[string(id)] = context.WithCancel(ctx)
	return ctx, nil
}

func (c *connection) end(id jsontext.Value, size int) {
	c.cancel(id)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.inFlight, string(id))
	c.bytes -= size
}

// cancel cancels a request. The request is answered all the same, with the outcome.
func (c *connection) cancel(id jsontext.Value) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if stop := c.inFlight[string(id)]; stop != nil {
		stop()
	}
}

func (r *request) send(kind string, data any) {
	b, err := json.Marshal(answer{Type: kind, ID: r.ID, Data: data}, json.Deterministic(true))
	if err != nil {
		r.fail(err)
		return
	}
	r.out.Send(b)
}

func (r *request) fail(err error) {
	f := fault.From(err)
	code := codeFailed
	if f.Reason == fault.MethodNotFound {
		code = codeNoMethod
	}
	id := r.ID
	if id == nil {
		id = jsontext.Value("null")
	}
	b, err := json.Marshal(answer{Type: "error", ID: id, Error: &failure{code, f.Message, api.ErrorData(f, forms.WebSocket)}}, json.Deterministic(true))
	if err == nil {
		r.out.Send(b)
	}
}

// onFrame sends a call's progress and logs.
func (r *request) onFrame(f *busv1.Frame) {
	name, data := api.Event(f)
	if name == "" {
		return
	}
	if b, err := json.Marshal(answer{Type: name, ID: r.ID, Data: data}); err == nil {
		r.out.Notify(b)
	}
}
