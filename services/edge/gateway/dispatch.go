package gateway

import (
	"context"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/tracing"
	"github.com/busbar-mcp/busbar/services/edge/budget"
	"github.com/busbar-mcp/busbar/services/edge/quota"
	"github.com/busbar-mcp/busbar/services/edge/store"
)

// AuditQuery is the method by which people read the audit trail, and AuditService the service
// that keeps it.
const (
	AuditQuery   = bus.AuditQuery
	AuditService = "audit"
)

const (
	// SamplingTimeout bounds a call of sampling/createMessage: models think.
	SamplingTimeout = 2 * time.Minute
	// AuditTimeout bounds a question about the audit trail: checking a long trail takes a while.
	AuditTimeout = 5 * time.Minute
)

// shareBytes of the digest of the account are enough to tell callers apart.
const shareBytes = 8

// dispatch puts the call on the bus, bounded by the tool's time limit. A call that may have an
// effect begins only with this edge's permit; a call without effects may be made again if its
// answer is lost. Requests about tasks need no service.
func dispatch(cfg *Config) link {
	shares := quota.New("tasks", maxTasksOfAccount, maxTaskBytes)
	return func(handler) handler {
		return func(ctx context.Context, r *run) (*Answer, error) {
			if r.isOwn() {
				return r.search(cfg)
			}
			if r.Target.Service == "" {
				return r.useTask(ctx, cfg)
			}
			deadline := time.Now().Add(r.timeLimit())
			req := r.request(deadline)
			var err error
			if req.Delegation, err = r.delegate(ctx, cfg.Sealer, slices.MinFunc([]time.Time{deadline, time.Now().Add(maxDelegation)}, time.Time.Compare)); err != nil {
				return nil, err
			}
			frame, err := r.send(ctx, cfg, req)
			if err != nil {
				return nil, err
			}
			if begun := frame.GetTask(); begun != nil {
				task := r.request(deadline)
				if trace.SpanContextFromContext(ctx).IsValid() {
					task.Traceparent, task.Tracestate = tracing.Header(ctx)
				}
				if task.Delegation, err = r.delegate(ctx, cfg.Sealer, time.Now().Add(store.KeyLife)); err != nil {
					return nil, err
				}
				return r.createTask(ctx, cfg.Tasks, shares, task, begun)
			}
			answer := answerOf(frame)
			answer.Replayed = r.Target.Tool != nil && r.Target.Tool.KeepsKeys && r.IdempotencyKey != "" && answer.Result.GetReplayed()
			return answer, nil
		}
	}
}

// send makes the call. A call with a large expected result, with or without an effect, begins
// only with this edge's permit, which the edge gives when it has room. Until then the call waits
// in the fair queue of its service, and takes up no room here.
func (r *run) send(ctx context.Context, cfg *Config, req *busv1.Request) (frame *busv1.Frame, err error) {
	of := budget.Source{Service: r.Target.Service, Method: r.Method, Name: r.Name}
	permit := r.permit
	if budget.From(ctx).Await(&r.result, r.Account, r.depth, of) {
		req.AskFirst = true
		permit = func(ctx context.Context, instance string) error {
			if err := r.result.Expect(ctx); err != nil || r.permit == nil {
				return err
			}
			return r.permit(ctx, instance)
		}
	}
	defer func() { r.result.Done(of, len(frame.GetResult().GetJson())) }()
	return cfg.Caller.CallOn(ctx, r.Stream, r.Target.Service, req, bus.Options{
		OnFrame: r.onFrame, Permit: permit, Harmless: r.harmless(), Only: r.Target.Instances, Ran: &r.Ran, Budget: &r.result,
	})
}

// answerOf is the answer of a terminal frame that begins no task.
func answerOf(f *busv1.Frame) *Answer {
	return &Answer{
		Result: f.GetResult(), InputRequired: f.GetInputRequired(),
		Disconnect: f.GetDisconnect(), Sent: f.GetSent(),
	}
}

// timeLimit is the longest that a call may take.
func (v *View) timeLimit() time.Duration {
	switch t := v.Target.Tool; {
	case t != nil && t.Timeout > 0:
		return t.Timeout
	case v.Method == mcp.MethodSample:
		return SamplingTimeout
	case v.Method == AuditQuery:
		return AuditTimeout
	}
	return bus.DefaultTimeout
}

func (r *run) request(deadline time.Time) *busv1.Request {
	return &busv1.Request{
		Id: r.ID, DeadlineUnixNano: uint64(deadline.UnixNano()),
		Method: r.Method, Name: r.Name, Arguments: r.Arguments, Client: r.Client,
		WantsProgress: r.WantsProgress, LogLevel: r.LogLevel,
		InputResponses: r.InputResponses, RequestState: r.RequestState, IdempotencyKey: r.IdempotencyKey,
		Identity:    identity(r.Principal),
		Traceparent: r.Traceparent, Tracestate: r.Tracestate, Meta: r.Meta,
		AskFirst: r.Writes(),
		Share:    &busv1.Share{Payer: digest("share", r.Account)[:shareBytes], Depth: r.depth},
	}
}

// harmless reports whether a call may run twice without being asked to.
func (r *run) harmless() bool {
	if r.Method == mcp.MethodSample {
		return false // no effect, but each run costs somebody money
	}
	return !r.Writes() || r.Target.Tool != nil && r.Target.Tool.KeepsKeys && r.IdempotencyKey != ""
}
