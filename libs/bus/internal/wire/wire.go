// Package wire checks the messages of services once, when they arrive from the bus. After that,
// doors copy their JSON into messages of their own without parsing it. Start reading at
// CheckResult.
package wire

import (
	"errors"
	"fmt"
	"math"
	"time"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus/internal/subject"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
)

// MaxResult is the largest result a call may have, in bytes.
const MaxResult = 16 << 20

// AuditQuery is the method by which the audit service is queried. It is not a method of MCP, so no
// client can reach it.
const AuditQuery = "busbar/audit"

// answerLimits limit the JSON of a service; a result may have MaxResult bytes.
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

// CheckResult checks the result of a method. The result of AuditQuery is not copied into another
// message, and need not be an object.
func CheckResult(method string, r *busv1.Result) error {
	if method == AuditQuery {
		return mcp.Valid(r.GetJson(), answerLimits)
	}
	return errors.Join(object("result", r.GetJson(), "resultType", "_meta"), object("_meta", r.GetMeta(), mcp.MetaServerInfo, mcp.MetaReplayed))
}

// CheckQuestions checks what a service asks a client.
func CheckQuestions(requests []byte) error { return object("input requests", requests) }

// CheckNotification checks a progress or log frame.
func CheckNotification(f *busv1.Frame) error {
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

// edgesOnly are the reasons about a client's own request, connection or answer, which a service
// cannot know.
var edgesOnly = map[fault.Reason]bool{
	fault.ParseError: true, fault.HeaderMismatch: true, fault.UnsupportedVersion: true, fault.UnknownSession: true,
	fault.Unauthenticated: true, fault.ApprovalRequired: true, fault.UnknownApproval: true, fault.UnknownTask: true,
	fault.HistoryLost: true, fault.UnknownToolset: true, fault.InputRequired: true, fault.UnknownElicitation: true,
}

var executedToWire = map[fault.Executed]busv1.Executed{
	fault.No: busv1.Executed_EXECUTED_NO, fault.Unknown: busv1.Executed_EXECUTED_UNKNOWN, fault.Yes: busv1.Executed_EXECUTED_YES,
}

// TimedOut is the fault of a call whose deadline has passed.
func TimedOut(service string) *fault.Error {
	return fault.New(fault.DeadlineExceeded, "service %s did not finish in time", service)
}

// FromFault converts a fault to the form that a service sends.
func FromFault(e *fault.Error) *busv1.Error {
	return &busv1.Error{
		Reason: string(e.Reason), Message: e.Message, Executed: executedToWire[e.Executed],
		Data: e.Data, RetryAfterMs: uint32(e.RetryAfter.Milliseconds()), Next: e.Next,
	}
}

// Fault reads the fault with which a service ended a call. Reasons that a service must not use
// become internal. A delegated call may also end with the fault of an edge that holds another call
// for approval.
func Fault(w *busv1.Error, service string, delegated bool) (*fault.Error, error) {
	if err := object("error data", w.GetData(), "reason", "executed", "retryAfterMs", "next"); err != nil {
		return nil, err
	}
	reason := fault.Reason(w.GetReason())
	data := w.GetData()
	held := delegated && reason == fault.ApprovalRequired
	if !reason.Known() || edgesOnly[reason] && service != subject.Gateway && !held {
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
	if service == subject.Gateway {
		e.Next = w.GetNext()
	}
	return e, nil
}
