package bus

import (
	"context"
	"errors"
	"slices"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus/internal/flow"
	"github.com/busbar-mcp/busbar/libs/bus/internal/subject"
	"github.com/busbar-mcp/busbar/libs/bus/internal/wire"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// take reads one message. It returns a frame or an error if the call is over, and nil for both
// otherwise.
func (a *attempt) take(ctx context.Context, got arrival) (*busv1.Frame, *fault.Error) {
	msg := got.msg
	if len(msg.Data) == 0 && msg.Header.Get("Status") == "503" {
		return a.step(ctx, flow.Event{Kind: flow.Unheard, Around: a.others()}, nil)
	}
	frame := &busv1.Frame{}
	if err := proto.Unmarshal(msg.Data, frame); err != nil || frame.Body == nil {
		a.why = fault.New(fault.PeerLost, "service %s answered with something that is not a frame", a.service).Because(err)
		return a.step(ctx, flow.Event{Kind: flow.Garbled}, nil)
	}
	e := flow.Event{Kind: flow.Frame, Seq: frame.Seq, Skipped: got.skipped}
	if subject.Token(frame.Instance) {
		e.Instance = frame.Instance
	}
	switch body := frame.Body.(type) {
	case *busv1.Frame_Ready:
		e.Kind, e.Turn = flow.Ready, body.Ready.GetTurn()
	case *busv1.Frame_Alive:
		if frame.Seq != 0 {
			e.Part = flow.Alive
		}
	case *busv1.Frame_Disconnect:
		a.deliver(frame) // if it is the first frame, this makes the answer one that can be left
		e.Part, e.MayLeave = flow.Disconnect, a.options.Stream != nil && a.options.Stream.MayLeave()
	case *busv1.Frame_Progress, *busv1.Frame_Log:
		e.Part = flow.Note
	case *busv1.Frame_Chunk:
		e.Part = flow.Chunk
	case *busv1.Frame_Result:
		e.Part = flow.Result
	case *busv1.Frame_Error:
		e.Part = flow.Failure
	case *busv1.Frame_InputRequired, *busv1.Frame_Task, *busv1.Frame_Outcome:
		e.Part = flow.Other
	}
	if e.Part != flow.Unnumbered && e.Seq > a.state.Seq+e.Skipped+1 {
		e.Around = a.others()
	}
	a.arrived = msg
	return a.step(ctx, e, frame)
}

// count notes that a frame is the next one of the answer.
func (a *attempt) count(frame *busv1.Frame) {
	if frame.Seq == 1 && subject.Token(frame.Instance) {
		a.ran(frame.Instance)
	}
	if stream := a.options.Stream; stream != nil {
		stream.Took(a.arrived.Subject, frame.Seq, len(a.arrived.Data))
	}
}

// deliver gives a frame to the caller's function.
func (a *attempt) deliver(frame *busv1.Frame) {
	onFrame := a.options.OnFrame
	switch frame.Body.(type) {
	case *busv1.Frame_Progress, *busv1.Frame_Log:
		if err := wire.CheckNotification(frame); err != nil {
			a.malformed(frame, err) // the call matters more
			return
		}
	default:
		if a.options.Stream == nil {
			return
		}
	}
	if onFrame != nil {
		onFrame(frame)
	}
}

// piece keeps a piece of the result.
func (a *attempt) piece(data []byte) *fault.Error {
	if a.size+len(data) > MaxResult {
		return fault.New(fault.ResultTooLarge, "the result exceeds %d bytes", MaxResult)
	}
	if f := a.keep(data); f != nil {
		return f
	}
	a.pieces = append(a.pieces, data)
	return nil
}

// keep asks the budget for the bytes of a piece of the result.
func (a *attempt) keep(b []byte) *fault.Error {
	a.size += len(b)
	if a.options.Budget == nil {
		return nil
	}
	if err := a.options.Budget.Take(len(b)); err != nil {
		return fault.From(err)
	}
	return nil
}

// answer returns how the call ended: with the last frame, or with the whole answer that the instance
// remembers.
func (a *attempt) answer(frame *busv1.Frame, remembered bool) (*busv1.Frame, *fault.Error) {
	if remembered {
		a.size, a.pieces = 0, nil
	}
	result := frame.GetResult()
	switch {
	case frame.GetDisconnect() != nil:
		return frame, nil
	case result == nil && !remembered:
		return a.checked(frame)
	}
	if f := a.keep(result.GetJson()); f != nil {
		return nil, f
	}
	if a.pieces != nil {
		result.Json = slices.Concat(append(a.pieces, result.Json)...)
		a.pieces = nil
	}
	return a.checked(frame)
}

// checked validates a terminal frame and returns how the call ended.
func (a *attempt) checked(frame *busv1.Frame) (*busv1.Frame, *fault.Error) {
	if a.options.Ran != nil {
		a.options.Ran.Answered = a.state.Vouched()
	}
	var err error
	switch body := frame.GetBody().(type) {
	case *busv1.Frame_Task, *busv1.Frame_Outcome:
	default:
		err = errors.New("an answer ends with no such frame")
	case *busv1.Frame_Result:
		err = wire.CheckResult(a.method, body.Result)
	case *busv1.Frame_InputRequired:
		err = wire.CheckQuestions(body.InputRequired.GetInputRequests())
	case *busv1.Frame_Error:
		var f *fault.Error
		if f, err = wire.Fault(body.Error, a.service, a.delegated); err == nil {
			return nil, f
		}
	}
	if err != nil {
		return nil, a.malformed(frame, err)
	}
	return frame, nil
}

// malformed counts and logs a violation of the protocol, and returns the error for the caller.
func (a *attempt) malformed(f *busv1.Frame, err error) *fault.Error {
	instance := a.state.By
	if instance == "" {
		instance = f.GetInstance()
	}
	a.caller.conn.CountMalformed()
	if !a.complained {
		a.complained = true
		a.caller.conn.log.Warn("a service gave something malformed", "service", a.service, "instance", instance, "call", a.id, "error", err)
	}
	return fault.New(fault.Internal, "service %s gave a malformed answer; the log of the edge names call %s", a.service, a.id).Because(err)
}

// Reader reads the frames of a call that this caller or another one made earlier.
type Reader struct{ a attempt }

// Read returns a reader for a call of a service.
func (c *Caller) Read(service, call string, o Options) *Reader {
	return &Reader{attempt{caller: c, service: service, id: call, options: o}}
}

// Take reads msg as the next frame, with the number seq. It returns a frame or an error if the call
// is over.
func (r *Reader) Take(msg *nats.Msg, seq uint32) (*busv1.Frame, *fault.Error) {
	r.a.state = flow.State{Seq: seq - 1, By: r.a.state.By}
	return r.a.take(context.Background(), arrival{msg: msg})
}

// isNotification reports whether a frame may be dropped.
func isNotification(data []byte) bool {
	frame := &busv1.Frame{}
	return proto.Unmarshal(data, frame) == nil && (frame.GetProgress() != nil || frame.GetLog() != nil || frame.GetAlive() != nil)
}
