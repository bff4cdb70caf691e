package bus

import (
	"errors"
	"fmt"
	"math"
	"time"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
)

// What services say is checked here, once, where it is taken from the bus:
// after that, doors splice it into messages of their own without reading it.

// answerLimits bound the JSON of a service, of which a result may have
// MaxResult.
var answerLimits = mcp.Limits{
	Bytes: MaxResult, Depth: 64, Values: MaxResult, Members: MaxResult, NumberBytes: 400, StringBytes: MaxResult,
}

// object checks JSON that must be an object, or empty.
func object(what string, b []byte, without ...string) error {
	if len(b) == 0 {
		return nil
	}
	if err := mcp.Object(b, answerLimits, without...); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// checkResult checks the result of a method. What is said of the audit trail
// goes into no message of ours, and is no object.
func checkResult(method string, r *busv1.Result) error {
	if method == AuditQuery {
		return mcp.Valid(r.GetJson(), answerLimits)
	}
	return errors.Join(object("result", r.GetJson(), "resultType", "_meta"), object("_meta", r.GetMeta(), mcp.MetaServerInfo))
}

func checkQuestions(requests []byte) error { return object("input requests", requests) }

func checkNotification(f *busv1.Frame) error {
	if p := f.GetProgress(); p != nil {
		for _, x := range []float64{p.Progress, p.Total} {
			if math.IsNaN(x) || math.IsInf(x, 0) {
				return fmt.Errorf("progress is %v", x)
			}
		}
	}
	if l := f.GetLog(); len(l.GetData()) > 0 {
		if err := mcp.Valid(l.Data, answerLimits); err != nil {
			return fmt.Errorf("log: %w", err)
		}
	}
	return nil
}

// checked is how a call ended, by its terminal frame.
func (a *answer) checked(frame *busv1.Frame) (*busv1.Frame, *fault.Error) {
	var err error
	switch body := frame.GetBody().(type) {
	case *busv1.Frame_Result:
		err = checkResult(a.method, body.Result)
	case *busv1.Frame_InputRequired:
		err = checkQuestions(body.InputRequired.GetInputRequests())
	case *busv1.Frame_Error:
		var f *fault.Error
		if f, err = errorFromWire(body.Error, a.service, a.delegated); err == nil {
			return nil, f
		}
	}
	if err != nil {
		return nil, a.malformed(frame, err)
	}
	return frame, nil
}

// malformed notes that a service broke the protocol, and says so to its caller.
func (a *answer) malformed(f *busv1.Frame, err error) *fault.Error {
	instance := a.instance
	for _, name := range []string{f.GetInstance(), a.from} {
		if instance == "" {
			instance = name
		}
	}
	a.caller.conn.malformed.Add(1)
	if !a.complained {
		a.complained = true
		a.caller.conn.log.Warn("a service gave something malformed", "service", a.service, "instance", instance, "call", a.id, "error", err)
	}
	return fault.New(fault.Internal, "service %s gave a malformed answer; the log of the edge names call %s", a.service, a.id).Because(err)
}

// Malformed counts the frames of services that broke the protocol.
func (c *Conn) Malformed() int64 { return c.malformed.Load() }

// edgesOnly are the reasons that tell a client what to do about its own
// request or connection, or its approvals, of which a service knows nothing.
var edgesOnly = map[fault.Reason]bool{
	fault.ParseError: true, fault.HeaderMismatch: true, fault.UnsupportedVersion: true, fault.UnknownSession: true,
	fault.Unauthenticated: true, fault.ApprovalRequired: true, fault.UnknownApproval: true, fault.UnknownTask: true,
	fault.HistoryLost: true,
}

var executedToWire = map[fault.Executed]busv1.Executed{
	fault.No: busv1.Executed_EXECUTED_NO, fault.Unknown: busv1.Executed_EXECUTED_UNKNOWN, fault.Yes: busv1.Executed_EXECUTED_YES,
}

func errorToWire(e *fault.Error) *busv1.Error {
	return &busv1.Error{
		Reason: string(e.Reason), Message: e.Message, Executed: executedToWire[e.Executed],
		Data: e.Data, RetryAfterMs: uint32(e.RetryAfter.Milliseconds()),
	}
}

// errorFromWire is the error that a service ended a call with. Reasons that it
// cannot have become internal. One that calls other tools may pass on that an
// edge holds such a call.
func errorFromWire(w *busv1.Error, service string, delegated bool) (*fault.Error, error) {
	if err := object("error data", w.GetData(), "reason", "executed", "retryAfterMs"); err != nil {
		return nil, err
	}
	reason := fault.Reason(w.GetReason())
	data := w.GetData()
	held := delegated && reason == fault.ApprovalRequired
	if !reason.Known() || edgesOnly[reason] && service != Gateway && !held {
		reason, data = fault.Internal, nil
	}
	e := fault.New(reason, "%s", w.GetMessage())
	switch w.GetExecuted() {
	case busv1.Executed_EXECUTED_NO:
		e = e.Ran(fault.No)
	case busv1.Executed_EXECUTED_YES:
		e = e.Ran(fault.Yes)
	default:
		e = e.Ran(fault.Unknown)
	}
	e.Data = data
	e.RetryAfter = time.Duration(w.GetRetryAfterMs()) * time.Millisecond
	return e, nil
}

// checkTask is the same for what a service keeps of a task.
func checkTask(rec *busv1.TaskRecord) error {
	_, err := errorFromWire(rec.Error, "", false)
	return errors.Join(err, checkResult(rec.GetRequest().GetMethod(), rec.Result), checkQuestions(rec.InputRequests))
}

// TaskError is why a task failed.
func TaskError(rec *busv1.TaskRecord) *fault.Error {
	f, err := errorFromWire(rec.Error, "", false)
	if err != nil {
		return fault.From(err)
	}
	return f
}
