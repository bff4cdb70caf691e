package client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	gatewayv1 "github.com/busbar-mcp/busbar/gen/busbar/gateway/v1"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/api"
)

// batchWindow is how many calls may wait for their outcome: enough that an edge
// never waits for the next one, and few enough that a file of any length fits.
const batchWindow = 512

// Batch implements Edge.
func (g *GRPC) Batch(ctx context.Context, calls io.Reader, each func(jsontext.Value, bool) error) error {
	client, r, err := g.begin(ctx, mcp.MethodToolsCall)
	if err != nil {
		return err
	}
	defer r.end()
	stream, err := client.BatchTools(r.ctx)
	if err != nil {
		return r.failed(err)
	}
	b := &grpcBatch{stop: r.end, each: each, window: make(chan struct{}, batchWindow), places: map[uint64]int{}}
	// It is not waited for: to read a terminal may take for ever.
	go func() {
		b.inputEnded(b.send(r.ctx, calls, stream.Send))
		_ = stream.CloseSend()
	}()
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return b.end(nil, &TransportError{URL: g.shownURL(), Method: mcp.MethodToolsCall, Sent: true, Err: io.ErrUnexpectedEOF})
		}
		if err != nil {
			return b.end(r.failed(err), nil)
		}
		if err := b.received(m); err != nil {
			return b.end(err, nil)
		}
	}
}

// grpcBatch is a batch under way.
type grpcBatch struct {
	stop func()
	// window has a place for each call that waits for its outcome.
	window chan struct{}

	mu   sync.Mutex
	each func(jsontext.Value, bool) error // nil when the batch is over
	// places are those in the input of the calls that wait, by the edge's index: a
	// line that is no call does not reach the edge.
	places map[uint64]int
	// ended is why the batch ends early; nil for no reason.
	ended error
}

// end ends the batch and returns why: what ended it first, or err, or, if calls
// wait for their outcome still, waiting.
func (b *grpcBatch) end(err, waiting error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.each = nil
	if b.ended == nil {
		b.ended = err
	}
	if b.ended == nil && len(b.places) > 0 {
		b.ended = waiting
	}
	return b.ended
}

// inputEnded notes why there are no more calls, if not for their end. Those that
// are under way go on.
func (b *grpcBatch) inputEnded(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended == nil {
		b.ended = err
	}
}

// send sends the calls of the input.
func (b *grpcBatch) send(ctx context.Context, input io.Reader, send func(*gatewayv1.BatchToolsRequest) error) error {
	limits := mcp.DefaultLimits()
	lines := bufio.NewReaderSize(input, 64<<10)
	sent, place := uint64(0), -1
	for {
		line, err := readLine(lines, limits.Bytes)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			place++
			call, bad := readCall(line, limits)
			if bad != nil {
				if b.report(place, api.NewSlot(nil, bad)) != nil {
					return nil
				}
			} else {
				select {
				case b.window <- struct{}{}:
				case <-ctx.Done():
					return nil
				}
				b.mu.Lock()
				b.places[sent] = place
				b.mu.Unlock()
				if send(call) != nil {
					return nil // Recv says why
				}
				sent++
			}
		}
		if err != nil {
			return nil
		}
	}
}

// readLine reads a line as the edge does when it reads a batch.
func readLine(in *bufio.Reader, limit int) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		if len(line)+len(part) > limit {
			f := fault.New(fault.TooLarge, "a line of the batch is longer than %d bytes", limit)
			return nil, &RPCError{Message: f.Message, Reason: f.Reason, Executed: f.Executed}
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// readCall reads a line by the rules of the edge, in whose words it is refused.
func readCall(line []byte, limits mcp.Limits) (*gatewayv1.BatchToolsRequest, error) {
	if err := mcp.Valid(line, limits); err != nil {
		return nil, err
	}
	c, err := api.ReadBatchCall(line)
	if err != nil {
		return nil, err
	}
	call := c.Call(api.Caller{}, nil)
	return &gatewayv1.BatchToolsRequest{Name: call.Name, Arguments: call.Arguments, IdempotencyKey: call.IdempotencyKey}, nil
}

// received reports an outcome.
func (b *grpcBatch) received(m *gatewayv1.BatchToolsResponse) error {
	b.mu.Lock()
	place, known := b.places[m.Index]
	delete(b.places, m.Index)
	b.mu.Unlock()
	if !known {
		return &ProtocolError{Method: mcp.MethodToolsCall, Message: "an outcome is of a call that was not made"}
	}
	<-b.window
	var slot api.Slot
	if f := m.GetFailure(); f != nil {
		slot = api.Slot{
			Error: f.Message, Reason: fault.Reason(f.Reason), Executed: fault.Executed(f.Executed),
			RetryAfterMS: int64(f.RetryAfterMs), Data: f.Data, IsError: true,
		}
	} else {
		r := m.GetResult()
		slot = api.Slot{Content: r.GetContent(), StructuredContent: r.GetStructuredContent(), IsError: r.GetIsError()}
	}
	return b.report(place, slot)
}

// report gives an outcome away, in the form that it has over HTTP.
func (b *grpcBatch) report(place int, slot api.Slot) error {
	slot.Index = &place
	line, err := json.Marshal(slot)
	if err != nil {
		return &ProtocolError{Method: mcp.MethodToolsCall, Message: "an outcome is malformed", Err: err}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.each == nil {
		return context.Canceled
	}
	if err := b.each(line, slot.IsError); err != nil {
		b.each, b.ended = nil, err
		b.stop()
		return err
	}
	return nil
}
