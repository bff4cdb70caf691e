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

// answer makes one attempt at a call and collects its frames.
type answer struct {
	caller   *Caller
	service  string
	options  Options
	deadline time.Time
	// began is when the first attempt at the call did.
	began     time.Time
	id, reply string
	method    string
	// tried are the instances that this attempt and those before it went to, first its place
	// for some; at is the one that has it now, empty for any.
	tried []string
	first [2]string
	at    string

	seq uint32
	// pieces are the chunks so far, size is what they have together.
	pieces [][]byte
	size   int
	// terminal is set when the service is done with the call; heard, when anything
	// but signs of life and an error came from it.
	terminal, heard bool
	// answered: see Ran.Answered.
	answered bool

	// delegated says that the service may call other tools for it.
	delegated bool
	// asks says that the instance begins only when it is permitted; instance is
	// the one that is, from the one whose frames come. keyed says that whoever makes the
	// call again has its answer.
	asks, permitted, keyed bool
	instance, from         string
	// words are the permits that may have been heard.
	words int
	// consented is the instance that Options.Permit agreed to, refused says that it
	// did not.
	consented *string
	refused   bool
	// complained says that a malformed frame was logged.
	complained bool
	// probed says that NATS was asked whether the instance is connected yet; stalled,
	// that it is, and was silent for too long all the same.
	probed, stalled bool
	// gap says that frames were lost; strayed, that the request or its answer was, or that the
	// instance may be on its way to another NATS server. lostBefore says that an attempt
	// before this one was lost.
	gap, strayed, lostBefore bool
	// server is the NATS server that the request was sent to.
	server *server
	// full says that the attempt before found no room, last that this is the last one.
	full, last bool
}

// send makes the request and waits for its answer: of the instance with the
// fewest calls, or of any where none is known. An instance that is not there any
// more has not run it, so that another one gets it.
func (a *answer) send(ctx context.Context, x *exchange, data []byte) (*busv1.Frame, *fault.Error) {
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
func (a *answer) choose() *member {
	members, from := &a.caller.conn.members, origin{a.caller.conn.Region(), a.full}
	if a.options.Only == nil {
		return members.take(a.service, from, a.tried)
	}
	if one := members.takeOf(a.service, from, a.options.Only, a.tried); one != nil || len(a.tried) == 0 {
		return one
	}
	return members.takeOf(a.service, from, a.options.Only, nil) // rather than none
}

// ran tells the caller which instance has the call.
func (a *answer) ran(instance string) {
	r := a.options.Ran
	if r == nil || r.Instance == instance && r.Version != "" {
		return // an instance that leaves meanwhile has the version that it had
	}
	r.Instance, r.Version = instance, a.caller.conn.members.version(a.service, instance)
}

// take reads one message. It returns a frame or an error when the call is
// over, neither otherwise.
func (a *answer) take(ctx context.Context, got arrival) (*busv1.Frame, *fault.Error) {
	msg := got.msg
	if len(msg.Data) == 0 && msg.Header.Get("Status") == "503" {
		if a.words > 1 && !a.probed {
			a.words-- // it may have heard another one
			return nil, nil
		}
		a.terminal = true // nothing runs
		if a.probed {
			a.stalled = false
			a.strayed = a.unreached() && len(a.others("")) == 0
			return nil, a.lost().Because(ErrNoInstance)
		}
		if a.words > 0 {
			a.permitted = false // it was there to ask, and not to hear
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
		return nil, nil // beside the answer, or not of the service
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
		if a.gap { // a piece of it may have been in there
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

// keep asks for room for bytes of a result.
func (a *answer) keep(b []byte) *fault.Error {
	a.size += len(b)
	if a.options.Budget == nil {
		return nil
	}
	if err := a.options.Budget.Take(len(b)); err != nil {
		return fault.From(err)
	}
	return nil
}

// checked is how a call ended, by its terminal frame.
func (a *answer) checked(frame *busv1.Frame) (*busv1.Frame, *fault.Error) {
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

// malformed notes that a service broke the protocol, and says so to its caller.
func (a *answer) malformed(f *busv1.Frame, err error) *fault.Error {
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

// Reader reads the frames of a call that this caller, or another one, made
// earlier.
type Reader struct{ a answer }

// Read returns a reader for a call of a service.
func (c *Caller) Read(service, call string, o Options) *Reader {
	return &Reader{answer{caller: c, service: service, id: call, options: o}}
}

// Take reads a frame that is the next one, whatever was before it. It returns a
// frame, or an error, when the call is over.
func (r *Reader) Take(msg *nats.Msg, seq uint32) (*busv1.Frame, *fault.Error) {
	r.a.seq = seq - 1
	return r.a.take(context.Background(), arrival{msg: msg})
}

// isNotification reports whether a frame may be dropped.
func isNotification(data []byte) bool {
	frame := &busv1.Frame{}
	return proto.Unmarshal(data, frame) == nil && (frame.GetProgress() != nil || frame.GetLog() != nil || frame.GetAlive() != nil)
}
