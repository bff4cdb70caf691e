package gateway

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// outcome is the record of a call that began. Of Task, Large and Result one at
// most is set; none while the call runs, or when nobody knows how it ended.
type outcome struct {
	// Digest is that of what is called, and with what.
	Digest []byte `json:"digest"`
	// Edge made the call, which has the id Call, and permitted it to Instance of
	// Service; empty for one that does not ask.
	Edge     string `json:"edge,omitzero"`
	Service  string `json:"service,omitzero"`
	Instance string `json:"instance,omitzero"`
	Call     string `json:"call,omitzero"`
	// Until is when the call is over in any case.
	Until time.Time `json:"until"`

	// Reason is why its edge does not know how it ended.
	Reason fault.Reason `json:"reason,omitzero"`
	Task   string       `json:"task,omitzero"`
	// Ran says that it ran, and that only its instance may still have the result.
	Ran bool `json:"ran,omitzero"`
	// Large says that it ran, and that its result is too large to be kept, or is
	// not kept any more.
	Large   bool           `json:"large,omitzero"`
	Result  jsontext.Value `json:"result,omitzero"`
	Meta    jsontext.Value `json:"meta,omitzero"`
	IsError bool           `json:"isError,omitzero"`
}

// settled reports whether the record says how the call ended.
func (r *outcome) settled() bool { return r.Task != "" || r.Large || r.Result != nil }

// ending is what the end of a call means for its record.
type ending int

const (
	// done: the record says how it ended, or why nobody knows.
	done ending = iota
	// free: nothing ran, or the call is not over; its key may be used again.
	free
	// goesOn: it goes on without this edge.
	goesOn
)

// take notes how a call ended.
func (r *outcome) take(a *Answer, err error) ending {
	switch f := fault.From(err); {
	case f != nil && f.Executed == fault.No:
		return free
	case f != nil && f.Reason == fault.ResultTooLarge:
		r.Large = true
	case f != nil:
		r.Reason = f.Reason
	case a.InputRequired != nil:
		return free // nothing has an effect before the last question
	case a.Task != nil:
		r.Task = a.Task.Request.GetId()
	case a.Result == nil:
		return goesOn // for a client that comes back elsewhere
	case len(a.Result.Json)+len(a.Result.Meta) > maxOutcome:
		r.Large = true
	default:
		r.Result, r.IsError = a.Result.Json, a.Result.IsError
		if len(a.Result.Meta) > 0 {
			r.Meta = a.Result.Meta
		}
	}
	return done
}

// takeFrame notes how a call ended by the answer that its instance kept.
func (r *outcome) takeFrame(frame *busv1.Frame, err error) ending {
	if err == nil && frame.GetTask() != nil {
		// Whether its edge has made the task is not known.
		r.Reason = fault.PeerLost
		return done
	}
	return r.take(answerOf(frame), err)
}
