package bus

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus/internal/subject"
	"github.com/busbar-mcp/busbar/libs/bus/internal/wire"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// attempt is one try to carry out a call at one instance: it picks the instance, sends the request,
// permits it to begin and collects the frames of the answer. CallWith makes up to maxAttempts of
// them. The steps are: run prepares the request, send picks the instance, wait (silence.go)
// receives and watches for silence, take reads one frame, asked (permit.go) answers the instance's
// question whether to begin, and give ends an attempt that failed.
type attempt struct {
	caller   *Caller
	service  string
	options  Options
	deadline time.Time
	// began is the time of the call's first attempt.
	began     time.Time
	id, reply string
	method    string
	// tried are the instances that this attempt and earlier ones were sent to; first is its storage
	// for a few. at is the instance that has the request now; empty if any instance may take it.
	tried []string
	first [2]string
	at    string

	seq uint32
	// pieces are the chunks received so far, size their total in bytes.
	pieces [][]byte
	size   int
	// terminal is set when the service has ended the call. heard is set when it has sent anything
	// other than signs of life and errors.
	terminal, heard bool
	// answered: see Ran.Answered.
	answered bool

	// delegated is set if the service may call other tools for this call.
	delegated bool
	// asks is set if the instance begins only with a permit. permitted is set once one was sent, to
	// instance; from is the instance whose frames arrive. keyed is set for a call with an
	// idempotency key: repeating it returns its answer.
	asks, permitted, keyed bool
	instance, from         string
	// permitsSent counts the permits that may have arrived.
	permitsSent int
	// consented is the instance that Options.Permit agreed to; refused is set if it said no.
	consented *string
	refused   bool
	// complained is set once a malformed frame was logged.
	complained bool
	// probed is set once NATS was asked whether the instance is still connected. stalled is set if
	// it is connected and has been silent for too long all the same.
	probed, stalled bool
	// gap is set if frames were lost. strayed is set if the request or its answer was lost, or if
	// the instance may be moving to another NATS server. lostBefore is set if an earlier attempt
	// was lost.
	gap, strayed, lostBefore bool
	// server is the NATS server that the request was sent to.
	server *server
	// full is set if the previous attempt found no free slot, last if this is the last attempt.
	full, last bool
}

// send sends the request and waits for the answer. It goes to the instance with the fewest calls,
// or to any instance if the registry knows none. An instance that has gone did not run the call, so
// the next one gets it.
func (a *attempt) send(ctx context.Context, x *exchange, data []byte) (*busv1.Frame, *fault.Error) {
	conn, members := a.caller.conn, &a.caller.conn.members
	if a.tried == nil {
		a.tried = a.first[:0]
	}
	for one := a.choose(); one != nil; one = a.choose() {
		a.ran(one.instance)
		a.at, a.tried = one.instance, append(a.tried, one.instance)
		a.server = conn.server.Load()
		if err := conn.publish(ctx, subject.To(a.service, one.instance, a.method), a.reply, data); err != nil {
			members.done(one, memberTold)
			return nil, wire.NotSent(err)
		}
		frame, err := a.wait(ctx, x, a.unheard(one.instance))
		switch {
		case err != nil && errors.Is(err, ErrNoInstance) && err.Reason == fault.Unavailable:
			members.done(one, memberGone)
			a.terminal = false
			a.ran("")
			if a.options.Only != nil {
				continue
			}
		case err != nil && errors.Is(err, ErrNoInstance):
			members.done(one, memberGone)
			return nil, err
		case err != nil && err.Reason == fault.PeerLost && !a.terminal:
			members.done(one, memberSilent)
			return nil, err
		case a.seq == 0:
			members.done(one, memberTold)
			return frame, err
		default:
			members.done(one, memberAnswered)
			return frame, err
		}
		break
	}
	if a.options.Only != nil {
		a.terminal = true // nothing runs
		return nil, fault.New(fault.Unavailable, "no instance of service %s that takes such a call is running", a.service).Because(ErrNoInstance)
	}
	a.at, a.server = "", conn.server.Load()
	if err := conn.publish(ctx, a.caller.to(a.service, a.method), a.reply, data); err != nil {
		return nil, wire.NotSent(err)
	}
	return a.wait(ctx, x, MaxSilence)
}

// choose returns the instance for this attempt, nil for none in particular.
func (a *attempt) choose() *member {
	members, from := &a.caller.conn.members, origin{a.caller.conn.Region(), a.full}
	if a.options.Only == nil {
		return members.take(a.service, from, a.tried)
	}
	if one := members.takeFrom(a.service, from, a.options.Only, a.tried); one != nil || len(a.tried) == 0 {
		return one
	}
	return members.takeFrom(a.service, from, a.options.Only, nil) // rather than none
}

// ran tells the caller which instance has the call.
func (a *attempt) ran(instance string) {
	r := a.options.Ran
	if r == nil || r.Instance == instance && r.Version != "" {
		return // keep the version of an instance that has just left
	}
	r.Instance, r.Version = instance, a.caller.conn.members.version(a.service, instance)
}

// take reads one message. It returns a frame or an error if the call is over, and nil for both
// otherwise. It handles, in this order: NATS's "no responders" (nobody heard the request, the
// permit or the probe), the instance's question whether it may begin, frames to skip (duplicates,
// signs of life without a number), a gap in the numbers, and then the frame by its kind.
func (a *attempt) take(ctx context.Context, got arrival) (*busv1.Frame, *fault.Error) {
	msg := got.msg
	if len(msg.Data) == 0 && msg.Header.Get("Status") == "503" {
		if a.permitsSent > 1 && !a.probed {
			a.permitsSent-- // another permit may have arrived
			return nil, nil
		}
		a.terminal = true // nothing runs
		if a.probed {
			a.stalled = false
			a.strayed = a.unreached() && len(a.others("")) == 0
			return nil, a.lost().Because(ErrNoInstance)
		}
		if a.permitsSent > 0 {
			a.permitted = false // it asked, but was gone before the permit arrived
			return nil, a.lost().Because(ErrNoInstance)
		}
		return nil, fault.New(fault.Unavailable, "no instance of service %s is running", a.service).Because(ErrNoInstance)
	}
	frame := &busv1.Frame{}
	if err := proto.Unmarshal(msg.Data, frame); err != nil || frame.Body == nil {
		return nil, fault.New(fault.PeerLost, "service %s answered with something that is not a frame", a.service).Because(err)
	}
	if frame.GetReady() != nil {
		return nil, a.asked(ctx, frame.Instance, frame.GetReady().Turn)
	}
	a.seq += got.skipped
	if frame.Seq == 0 && frame.GetAlive() != nil || frame.GetSent() != nil {
		return nil, nil // not part of the answer
	}
	if frame.Seq != 0 && frame.Seq <= a.seq {
		return nil, nil // delivered twice
	}
	if frame.Seq != a.seq+1 {
		if !a.permitted || !a.askable() {
			return nil, a.torn()
		}
		a.gap = true
	}
	a.seq = frame.Seq
	if frame.Seq == 1 {
		a.from = frame.Instance
		if subject.Token(frame.Instance) {
			a.ran(frame.Instance)
		}
	}
	stream, onFrame := a.options.Stream, a.options.OnFrame
	if stream != nil {
		stream.Took(msg.Subject, frame.Seq, len(msg.Data))
	}
	if frame.GetAlive() == nil && frame.GetError() == nil {
		a.heard = true
		if a.asks && !a.permitted {
			if f := a.begun(ctx, frame.Instance); f != nil {
				return nil, f
			}
		}
	}
	switch body := frame.Body.(type) {
	case *busv1.Frame_Alive:
		if stream != nil && onFrame != nil {
			onFrame(frame)
		}
	case *busv1.Frame_Disconnect:
		if stream != nil && onFrame != nil {
			onFrame(frame)
		}
		if stream != nil && stream.MayLeave() {
			a.terminal = true // for this caller
			return frame, nil
		}
	case *busv1.Frame_Progress, *busv1.Frame_Log:
		if err := wire.CheckNotification(frame); err != nil {
			a.malformed(frame, err) // the call matters more
			return nil, nil
		}
		if onFrame != nil {
			onFrame(frame)
		}
	case *busv1.Frame_Chunk:
		if a.size+len(body.Chunk.Data) > MaxResult {
			return nil, fault.New(fault.ResultTooLarge, "the result exceeds %d bytes", MaxResult)
		}
		if err := a.keep(body.Chunk.Data); err != nil {
			return nil, err
		}
		a.pieces = append(a.pieces, body.Chunk.Data)
	case *busv1.Frame_Result:
		a.terminal = true
		if a.gap { // a lost frame may have held a piece of the result
			return a.found(<-a.ask(ctx))
		}
		if err := a.keep(body.Result.Json); err != nil {
			return nil, err
		}
		if a.pieces != nil {
			body.Result.Json = slices.Concat(append(a.pieces, body.Result.Json)...)
			a.pieces = nil
		}
		return a.checked(frame)
	case *busv1.Frame_InputRequired, *busv1.Frame_Error, *busv1.Frame_Task, *busv1.Frame_Outcome:
		a.terminal = true
		return a.checked(frame)
	}
	return nil, nil
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

// checked validates a terminal frame and returns how the call ended.
func (a *attempt) checked(frame *busv1.Frame) (*busv1.Frame, *fault.Error) {
	if a.answered = a.asks && a.permitted; a.options.Ran != nil {
		a.options.Ran.Answered = a.answered
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
	instance := a.instance
	for _, name := range []string{f.GetInstance(), a.from} {
		if instance == "" {
			instance = name
		}
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
	r.a.seq = seq - 1
	return r.a.take(context.Background(), arrival{msg: msg})
}

// isNotification reports whether a frame may be dropped.
func isNotification(data []byte) bool {
	frame := &busv1.Frame{}
	return proto.Unmarshal(data, frame) == nil && (frame.GetProgress() != nil || frame.GetLog() != nil || frame.GetAlive() != nil)
}
