package gateway

import (
	"context"
	"log/slog"
	"time"

	"github.com/busbar-mcp/busbar/libs/fault"
)

// Auditor records every call, refused ones included.
type Auditor interface {
	Record(ctx context.Context, r Record)
}

// Record is what is known of a call when it is over.
type Record struct {
	Call     *Call
	Duration time.Duration
	// Outcome is "ok", "tool_error", "input_required", "task" or a fault.Reason.
	Outcome string
	// Err is nil unless the call failed.
	Err *fault.Error
}

func audit(a Auditor) Link {
	return func(ctx context.Context, c *Call, onFrame OnFrame, next Next) (*Answer, error) {
		if c.Received.IsZero() {
			c.Received = time.Now()
		}
		answer, err := next(ctx, c, onFrame)
		return answer, record(ctx, a, c, answer, err)
	}
}

// record says how a call ended, and returns its error as clients may see it.
func record(ctx context.Context, a Auditor, c *Call, answer *Answer, err error) error {
	r := Record{Call: c, Duration: time.Since(c.Received), Outcome: "ok", Err: fault.From(err)}
	switch {
	case err != nil:
		r.Outcome = string(r.Err.Reason)
		err = r.Err
	case answer.InputRequired != nil:
		r.Outcome = "input_required"
	case answer.Task != nil:
		r.Outcome = "task"
	case answer.Disconnect != nil:
		r.Outcome = "left"
	case answer.Result != nil && answer.Result.IsError:
		r.Outcome = "tool_error"
	}
	a.Record(ctx, r)
	return err
}

// logAuditor writes one line per call: failures where an operator looks,
// everything else at debug level.
type logAuditor struct{ log *slog.Logger }

func (l logAuditor) Record(ctx context.Context, r Record) {
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
		slog.String("door", r.Call.Door), slog.String("method", r.Call.Method), slog.String("name", fault.Clip(r.Call.Name)),
		slog.String("service", r.Call.Target.Service), slog.String("principal", r.Call.Principal.Name),
		slog.String("outcome", r.Outcome), slog.Duration("duration", r.Duration),
	}
	if r.Err != nil {
		attrs = append(attrs, slog.String("executed", string(r.Err.Executed)), slog.Any("error", r.Err))
	}
	l.log.LogAttrs(ctx, level, "call", attrs...)
}
