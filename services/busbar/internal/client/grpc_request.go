package client

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/busbar-mcp/busbar/libs/fault"
)

// grpcRequest is one request of gRPC under way.
type grpcRequest struct {
	edge   *GRPC
	method string
	// ctx is the request's own, which ends with outer or end.
	ctx, outer context.Context
	end        func()
	// sent is whether the edge may have seen the request.
	sent atomic.Bool
}

// sentKey is under which a request's sent is in its context.
type sentKey struct{}

// sentWatch sees when a request leaves.
type sentWatch struct{}

func (sentWatch) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }
func (sentWatch) HandleRPC(ctx context.Context, s stats.RPCStats) {
	if _, left := s.(*stats.OutHeader); left {
		if sent, ok := ctx.Value(sentKey{}).(*atomic.Bool); ok {
			sent.Store(true)
		}
	}
}
func (sentWatch) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (sentWatch) HandleConn(context.Context, stats.ConnStats)                       {}

// failed is the error of a request in the words that there are for HTTP, too.
func (r *grpcRequest) failed(err error) error {
	lost := &TransportError{URL: r.edge.shownURL(), Method: r.method, Sent: r.sent.Load(), Err: err}
	if r.outer.Err() != nil {
		lost.Err = r.outer.Err() // rather than what became of it
		return lost
	}
	s, ok := status.FromError(err)
	if !ok {
		return lost
	}
	if e := readStatus(s); e != nil {
		return e
	}
	if s.Code() == codes.ResourceExhausted && strings.Contains(s.Message(), "larger than max") { // words of gRPC's own at the edge
		return &RPCError{Message: "the request is larger than the edge takes", Reason: fault.TooLarge, Executed: fault.No}
	}
	if s.Code() != codes.Unavailable {
		return &StatusError{URL: lost.URL, Status: s}
	}
	r.edge.mu.Lock()
	dialled := r.edge.dialled
	r.edge.mu.Unlock()
	switch {
	case !lost.Sent && dialled != nil:
		lost.Err = dialled
	case strings.Contains(s.Message(), io.EOF.Error()) && lost.Sent:
		lost.Err = io.ErrUnexpectedEOF
	default:
		lost.Err = errors.New(s.Message())
	}
	return lost
}

// readStatus reads a status as the edge writes it; nil for anything else.
func readStatus(s *status.Status) *RPCError {
	e := &RPCError{Message: s.Message()}
	for _, d := range s.Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			if d.Domain != "busbar" {
				continue
			}
			e.Reason, e.Executed, e.Data = fault.Reason(d.Reason), fault.Executed(d.Metadata["executed"]), readFacts(d.Metadata)
		case *errdetails.RetryInfo:
			e.RetryAfter = d.RetryDelay.AsDuration()
		}
	}
	if e.Reason == "" {
		return nil
	}
	return e
}

// readFacts makes an object of metadata: data of an error, each member in text.
func readFacts(metadata map[string]string) jsontext.Value {
	b := []byte{'{'}
	for _, name := range slices.Sorted(maps.Keys(metadata)) {
		if name == "executed" {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b, _ = jsontext.AppendQuote(b, strings.ToValidUTF8(name, "\uFFFD"))
		b = append(b, ':')
		b, _ = jsontext.AppendQuote(b, strings.ToValidUTF8(metadata[name], "\uFFFD"))
	}
	return append(b, '}')
}
