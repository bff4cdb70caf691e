package gateway

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/tracing"
)

// Auditor keeps the record of calls.
type Auditor interface {
	// Ready is asked early about calls that may write, and returns at once. Its *fault.Error says
	// why Begin would refuse the call.
	Ready(v View) error
	// Begin is asked before a call that may write runs. It returns when the record of the call's
	// beginning is safe. Its *fault.Error refuses the call.
	Begin(ctx context.Context, v View) error
	// Record is told of every call that is over, including refused ones. For a call that may have
	// had an effect, it returns when the record is safe. Its *fault.Error says that the record is
	// not safe, and replaces the answer.
	Record(ctx context.Context, r Record) error
}

// Record is the information about a call when it is over.
type Record struct {
	View
	Duration time.Duration
	// Outcome is "ok", "tool_error", "input_required", "task", "left", "replayed"
	// or a fault.Reason.
	Outcome string
	// Err is nil unless the call failed.
	Err *fault.Error
	// Begun says that the Auditor was asked to record the beginning of the call, by this edge or
	// by the edge that made the call.
	Begun bool
	// Replayed: see Answer.
	Replayed bool
}

// Executed says whether this call ran, whatever an earlier call with its idempotency key did.
func (r Record) Executed() fault.Executed {
	switch {
	case r.Err != nil && r.Writes() && !r.Begun: // nothing runs before the link begin
		return fault.No
	case r.Err != nil:
		return r.Err.Executed
	case r.Replayed, r.Outcome == outcomeAsked: // nothing has an effect before the last question
		return fault.No
	case r.Outcome == "left":
		return fault.Unknown
	}
	return fault.Yes
}

// outcomeAsked is the outcome of a call that ended with a question. The answer makes the call
// again.
const outcomeAsked = "input_required"

// Effect reports whether the call may have changed something.
func (r Record) Effect() bool { return r.Writes() && r.Executed() != fault.No }

// Writes reports whether the call may change something when it runs. For a tool, that is known
// only once its target is.
func (v *View) Writes() bool {
	switch v.Method {
	case mcp.MethodToolsCall:
		return v.Target.Tool != nil && !v.Target.Tool.ReadOnly
	case mcp.MethodTasksUpdate, mcp.MethodTasksCancel:
		return true
	}
	return false
}

// audit records every call, whatever its result.
func audit(cfg *Config) link {
	return func(next handler) handler {
		return func(ctx context.Context, r *run) (*Answer, error) {
			if !traceparent(r.Traceparent) {
				// An invalid header is discarded, as W3C Trace Context requires. The edge's own
				// context replaces it if the edge records the call.
				r.Traceparent, r.Tracestate = "", ""
				if trace.SpanContextFromContext(ctx).IsSampled() {
					r.Traceparent, _ = tracing.Header(ctx)
				}
			}
			if len(r.Tracestate) > tracing.MaxState {
				r.Tracestate = ""
			}
			answer, err := next(ctx, r)
			if err = record(ctx, cfg.Auditor, r, answer, err); err != nil {
				return nil, err
			}
			return answer, nil
		}
	}
}

// traceparent reports whether a text has the form that W3C Trace Context gives the header, so
// that nothing else travels in its place.
func traceparent(s string) bool {
	const form = "00-00000000000000000000000000000000-0000000000000000-00"
	if len(s) < len(form) || strings.HasPrefix(s, "ff") {
		return false
	}
	for i := range len(form) {
		if c := s[i]; form[i] == '-' && c != '-' || form[i] == '0' && (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	switch {
	case s[3:35] == form[3:35] || s[36:52] == form[36:52]: // no trace, no parent
		return false
	case s[:2] == "00":
		return len(s) == len(form)
	}
	// A later version may have more fields.
	rest := s[len(form):]
	return len(s) <= maxTraceparent && (rest == "" || rest[0] == '-' && strings.Trim(rest, "0123456789abcdef-") == "")
}

// maxTraceparent bounds a traceparent of a later version.
const maxTraceparent = 128

// gate refuses calls at once while they could not be recorded, before the bus is asked anything
// about them.
func gate(cfg *Config) link {
	return func(next handler) handler {
		return func(ctx context.Context, r *run) (*Answer, error) {
			if err := cfg.Auditor.Ready(r.View); err != nil {
				return nil, err
			}
			return next(ctx, r)
		}
	}
}

// begin records that a call is made, before it has its effect.
func begin(cfg *Config) link {
	return func(next handler) handler {
		return func(ctx context.Context, r *run) (*Answer, error) {
			r.begun = true
			if err := cfg.Auditor.Begin(ctx, r.View); err != nil {
				return nil, err
			}
			return next(ctx, r)
		}
	}
}

// record records how a call ended, and returns its error as clients may see it.
func record(ctx context.Context, a Auditor, r *run, answer *Answer, err error) error {
	end := Record{View: r.View, Duration: time.Since(r.Received), Outcome: "ok", Begun: r.begun}
	switch {
	case err != nil:
		end.Err = fault.From(err)
		end.Outcome, err = string(end.Err.Reason), end.Err
	case answer.Replayed:
		end.Outcome, end.Replayed = "replayed", true
	case answer.InputRequired != nil:
		end.Outcome = outcomeAsked
	case answer.Task != nil:
		end.Outcome = "task"
	case answer.Disconnect != nil:
		end.Outcome = "left"
	case answer.Result != nil && answer.Result.IsError:
		end.Outcome = "tool_error"
	}
	if unsafe := a.Record(ctx, end); err == nil {
		return unsafe
	}
	return err
}

// logged also writes one line per call: failures at a level that an operator reads, everything
// else at debug level. trail may be nil.
type logged struct {
	log   *slog.Logger
	trail Auditor
}

func (l logged) Ready(v View) error {
	if l.trail == nil {
		return nil
	}
	return l.trail.Ready(v)
}

func (l logged) Begin(ctx context.Context, v View) error {
	if l.trail == nil {
		return nil
	}
	return l.trail.Begin(ctx, v)
}

func (l logged) Record(ctx context.Context, r Record) error {
	l.line(ctx, r)
	if l.trail == nil {
		return nil
	}
	return l.trail.Record(ctx, r)
}

func (l logged) line(ctx context.Context, r Record) {
	level := slog.LevelDebug
	if r.Err != nil {
		switch r.Err.Reason {
		case fault.Internal, fault.PeerLost, fault.DeadlineExceeded, fault.Unavailable, fault.Overloaded, fault.ResultTooLarge:
			level = slog.LevelWarn
		}
	}
	if !l.log.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("door", r.Door), slog.String("method", r.Method), slog.String("name", fault.Clip(r.Name)),
		slog.String("service", r.Target.Service), slog.String("instance", r.Ran.Instance), slog.String("version", r.Ran.Version),
		slog.String("principal", r.Principal.Name),
		slog.String("outcome", r.Outcome), slog.Duration("duration", r.Duration),
	}
	if r.Credentials.Toolset != "" {
		attrs = append(attrs, slog.String("toolset", fault.Clip(r.Credentials.Toolset)))
	}
	if r.Err != nil {
		attrs = append(attrs, slog.String("executed", string(r.Err.Executed)), slog.Any("error", r.Err))
	}
	l.log.LogAttrs(ctx, level, "call", attrs...)
}
