package edges

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/internal/flow"
	"github.com/busbar-mcp/busbar/libs/bus/internal/subject"
	"github.com/busbar-mcp/busbar/libs/bus/internal/wire"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// follower reads a stream that another edge, or this one, began earlier.
type follower struct {
	caller  *Caller
	stream  *Stream
	after   Position
	onFrame func(*busv1.Frame)

	answer  *bus.Reader  // reads the last call's answer
	read    uint32       // the number of its last frame
	seq     uint64       // the JetStream number of the next message to fetch
	pending *busv1.Frame // an input_required that nobody has acted on yet
}

const (
	// lookAgain is the wait before a silent stream is read again.
	lookAgain = 250 * time.Millisecond
	// maxLive is how many live messages are queued; further ones are read from the stream.
	maxLive = 1024
	// askAgain is the interval of checks whether an edge still serves a stream whose client has a
	// question to answer.
	askAgain = 2 * time.Second
)

// Follow continues a stream: it gives onFrame the frames after the position (progress, logs and
// messages of edges) and returns the frame that ends the answer, as Call does. onFrame may be slow:
// frames are kept meanwhile. A sent frame ends the stream if it is the response. An attempt that an
// instance did not begin does not end it: the edge that serves the stream may make another one.
//
// While an edge serves the stream, Follow only reads. It calls served when that matters. Once
// served returns false, Follow returns input_required too, and the caller continues with CallOn. If
// some frames after the position are gone, the error's reason is HistoryLost.
func (c *Caller) Follow(ctx context.Context, s *Stream, after Position, onFrame func(*busv1.Frame), served func() bool) (*busv1.Frame, error) {
	f := &follower{caller: c, stream: s, after: after, onFrame: onFrame, seq: 1}
	f.answer = c.Read(s.service, s.call, bus.Options{Stream: s, OnFrame: f.tell})
	live := make(chan *nats.Msg, maxLive)
	kept, alive := subject.FramesIn(s.Home, s.Name)
	for _, at := range []string{kept, alive} {
		sub, err := c.conn.NATS().ChanSubscribe(at, live)
		if err != nil {
			return nil, wire.NotSent(err).Ran(fault.Unknown)
		}
		defer func() { _ = sub.Unsubscribe() }()
	}
	// From here on a frame is in the stream, arrives live, or both. This ignores the end of ctx,
	// because CancelOn needs to know the call.
	unhurried := context.WithoutCancel(ctx)
	if err := c.conn.Flush(unhurried); err != nil {
		return nil, fault.New(fault.Unavailable, "the bus is not reachable; try again shortly").Ran(fault.Unknown).Because(err)
	}
	timer := time.NewTimer(lookAgain)
	defer timer.Stop()
	frame, _, err := f.fetch(ctx, unhurried)
	// quiet is the time without any frame, missing the time without the frames before a live one. A
	// turn counts for no more than its planned length: if this process or its machine is late, the
	// other side was not silent.
	var quiet, missing time.Duration
	gap, looked := false, false
	for {
		if ctx.Err() != nil {
			return nil, fault.New(fault.Cancelled, "cancelled").Because(context.Cause(ctx))
		}
		if frame != nil || err != nil {
			return frame, err
		}
		wait := lookAgain
		if f.pending != nil {
			wait = askAgain
		}
		if left, lost := f.givesUp(quiet, missing, served); left != nil || lost != nil {
			if looked && len(live) == 0 {
				return left, lost
			}
			// The instance may have ended the call and reported it during the check.
			looked, wait = true, 0
		} else {
			looked = false
		}
		timer.Reset(wait)
		before, turn := s.last, time.Now()
		news := true
		select {
		case msg := <-live:
			var behind bool
			if frame, behind, err = f.take(msg, false); behind {
				gap = true
				frame, _, err = f.fetch(ctx, ctx)
			}
		case <-timer.C:
			frame, news, err = f.fetch(ctx, ctx)
		case <-ctx.Done():
		}
		passed := min(time.Since(turn), wait)
		if quiet += passed; news {
			quiet = 0
		}
		if missing += passed; s.last != before || !gap {
			gap, missing = false, 0
		}
	}
}

// givesUp decides how following ends after a time without frames; it returns nothing while it
// continues.
func (f *follower) givesUp(quiet, missing time.Duration, served func() bool) (pending *busv1.Frame, _ error) {
	begun := f.stream.service != ""
	switch {
	case missing >= flow.MaxSilence:
		return nil, historyLost()
	case f.pending != nil && !served():
		return f.pending, nil
	case !begun && quiet >= flow.MaxSilence && !served(),
		!begun && quiet >= 4*flow.MaxSilence:
		// Frames existed before the client could come back for the rest.
		return nil, historyLost()
	case f.pending == nil && quiet >= flow.MaxSilence && !served(),
		// A live instance would have sent a frame by now.
		f.pending == nil && quiet >= 4*flow.MaxSilence:
		return nil, fault.New(fault.PeerLost, "the service stopped answering; whether the call ran is unknown")
	}
	return nil, nil
}

func historyLost() *fault.Error {
	return fault.New(fault.HistoryLost, "part of the answer is gone; send the request again")
}

// take reads one message. gap means that frames before it are missing, which
// for a live one may only be late.
func (f *follower) take(msg *nats.Msg, stored bool) (frame *busv1.Frame, gap bool, err error) {
	service, round, call, ok := subject.Round(msg.Subject)
	s := f.stream
	if !ok || round < s.last.Round {
		return nil, false, nil
	}
	if !subject.Kept(msg.Subject) {
		// The first frame of the next call is stored before live ones arrive.
		return nil, round > s.last.Round && f.after.Before(Position{round, 1}), nil
	}
	frame = &busv1.Frame{}
	if err := proto.Unmarshal(msg.Data, frame); err != nil || frame.Body == nil {
		return nil, false, nil
	}
	if round > s.last.Round {
		// The stream has the frames in order: a frame sent before this edge listened may still be
		// on its way there.
		if !stored && (round > 1 || frame.Seq != 1) {
			return nil, true, nil
		}
		s.enter(msg.Subject, service, round, call)
		f.answer = f.caller.Read(service, call, bus.Options{Stream: s, OnFrame: f.tell})
		f.read, f.pending = 0, nil
	}
	switch {
	case frame.Seq <= f.read:
		return nil, false, nil
	case frame.Seq > f.read+1 && !stored:
		return nil, true, nil
	case frame.Seq > f.read+1 && f.after.Before(Position{round, frame.Seq - 1}):
		return nil, false, historyLost()
	}
	f.read = frame.Seq
	if sent := frame.GetSent(); sent != nil {
		s.Took(msg.Subject, frame.Seq, len(msg.Data))
		if sent.Response {
			return frame, false, nil
		}
		f.tell(frame)
		return nil, false, nil
	}
	ended, ferr := f.answer.Take(msg, frame.Seq)
	switch {
	case ferr != nil && bus.Unbegun(ferr):
		// The edge that serves the stream makes the call again, or sends a response.
		return nil, false, nil
	case ferr != nil:
		return nil, false, ferr
	case ended.GetInputRequired() != nil:
		f.pending = ended
		return nil, false, nil
	}
	return ended, false, nil
}

// tell passes on a frame that comes after the position.
func (f *follower) tell(frame *busv1.Frame) {
	if f.onFrame != nil && f.after.Before(Position{f.stream.last.Round, frame.Seq}) {
		f.onFrame(frame)
	}
}

// fetch reads the unread frames of the stream, until reading ends. After the end of ctx it passes
// none on. news reports whether there were any.
func (f *follower) fetch(ctx, reading context.Context) (frame *busv1.Frame, news bool, err error) {
	kept, _ := subject.FramesIn(f.stream.Home, f.stream.Name)
	stored := fetch(reading, f.caller.conn, bus.Query{Seq: f.seq, Subject: kept}, func(msg *nats.Msg, seq uint64) bool {
		news, f.seq = true, seq+1
		if ctx.Err() != nil {
			f.onFrame = nil
		}
		frame, _, err = f.take(msg, true)
		return frame == nil && err == nil
	})
	if err == nil {
		err = stored
	}
	return frame, news, err
}
