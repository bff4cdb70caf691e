package bus

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus/internal/flow"
	"github.com/busbar-mcp/busbar/libs/bus/internal/subject"
	"github.com/busbar-mcp/busbar/libs/bus/internal/wire"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/share"
)

// Limits of what an instance keeps of calls with an idempotency key, for edges that take over from
// a dead edge (ADR 0014).
const (
	// keptLife is how long an instance keeps an answer.
	keptLife = 5 * time.Minute
	// maxKeptAnswer is the largest answer kept, maxKeptBytes all of them. Beyond it the oldest are
	// forgotten.
	maxKeptAnswer = 96 << 10
	maxKeptBytes  = 32 << 20
	// maxKeptCalls limits the calls that an instance remembers as begun, with or without answers.
	maxKeptCalls = 65_536

	// The same limits for all calls that may have an effect: their callers ask within seconds if
	// frames were lost.
	recentLife     = 15 * time.Second
	maxRecentBytes = 8 << 20
	maxRecentCalls = 16_384
)

// keptCalls are the calls that an instance began, with their answers, so that a caller can ask
// later what became of a call. An instance has two of them: Server.kept for calls with an
// idempotency key (5 min), Server.begun for every call with a permit (15 s). If all bytes or all calls
// exceed their limit, the caller with the most loses its oldest: first an answer is forgotten, then
// the call itself. So a caller that fills the memory loses its own calls.
type keptCalls struct {
	life               time.Duration
	maxBytes, maxCalls int
	// whole: an answer too large to keep unchanged is not kept at all.
	whole bool

	mu    sync.Mutex
	calls map[string]*keptCall
	// ended has the calls that ended, and answered those whose answer is kept.
	ended, answered share.Queue[*keptCall]
	swept           time.Time
	// lost is set once a call was forgotten completely.
	lost bool
}

type keptCall struct {
	id string
	of share.Name
	// attempts counts the attempts that have begun and not ended.
	attempts int
	answer   *busv1.Frame // nil until one has ended, and once it is forgotten
	at       time.Time
	// Places among the calls that ended, and that have an answer.
	ended, answered share.Item[*keptCall]
}

// known returns the memories that record how a call ends.
func (s *Server) known(req *busv1.Request) (all []*keptCalls) {
	if req.AskFirst {
		all = append(all, &s.begun)
	}
	if req.IdempotencyKey != "" {
		all = append(all, &s.kept)
	}
	return all
}

// became returns the outcome of a call that this instance received recently.
func (s *Server) became(id string) *busv1.Outcome {
	s.mu.Lock()
	live := s.live[id] != nil
	s.mu.Unlock()
	o := s.begun.outcome(id)
	if live && o.State != busv1.Outcome_STATE_ENDED { // it may wait for a slot, or have no effect
		return &busv1.Outcome{State: busv1.Outcome_STATE_RUNNING}
	}
	return o
}

// FirstID is the id of a call's first attempt: each of the next has a number
// behind it. The id of a task, which begins with its service, is the same in
// every attempt.
func FirstID(id string) string {
	if strings.Contains(id, ".") {
		return id
	}
	first, _, _ := strings.Cut(id, "-")
	return first
}

// begin notes that an attempt of a call is about to run.
func (k *keptCalls) begin(id string, of share.Name) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.calls == nil {
		k.calls = map[string]*keptCall{}
	}
	c := k.calls[FirstID(id)]
	if c == nil {
		c = &keptCall{id: FirstID(id), of: of}
		k.calls[c.id] = c
	}
	c.attempts++
}

// unbegun undoes begin. Other attempts of the call stay known.
func (k *keptCalls) unbegun(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := k.calls[FirstID(id)]
	if c == nil {
		return
	}
	if c.attempts--; c.attempts == 0 && c.at.IsZero() {
		delete(k.calls, c.id)
	}
}

// end keeps how a call ended: with a body, or with f.
func (k *keptCalls) end(id string, body proto.Message, f *fault.Error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := k.calls[FirstID(id)]
	if c == nil {
		return
	}
	c.attempts--
	if !c.at.IsZero() { // an earlier attempt, whose answer this one replaces
		c = &keptCall{id: c.id, of: c.of, attempts: c.attempts}
		k.calls[c.id] = c
	}
	c.answer, c.at = keptFrame(body, f), time.Now()
	if k.whole {
		c.answer = wholeFrame(body, c.answer)
	}
	c.ended = share.Item[*keptCall]{Value: c, Size: 1}
	c.answered = share.Item[*keptCall]{Value: c, Size: int64(proto.Size(c.answer))}
	k.ended.Of(c.of).Add(&c.ended)
	own := k.answered.Of(c.of)
	own.Add(&c.answered)
	k.expire(own)
	if k.full() && time.Since(k.swept) > time.Second {
		k.swept = time.Now()
		for one := range k.answered.Turns() {
			k.expire(one)
		}
	}
	for k.full() {
		k.answered.All.Goes().Value.forget()
	}
	for k.ended.All.Items > k.maxCalls {
		c := k.ended.All.Goes().Value
		c.forget()
		if c.ended.Remove(); k.calls[c.id] == c {
			delete(k.calls, c.id)
		}
		k.lost = true
	}
}

// full reports whether the answers have too many bytes.
func (k *keptCalls) full() bool { return k.answered.All.Size > int64(k.maxBytes) }

// expire forgets the answers that are too old.
func (k *keptCalls) expire(of *share.Account[*keptCall]) {
	for oldest := of.Oldest; oldest != nil && time.Since(oldest.Value.at) > k.life; oldest = of.Oldest {
		oldest.Value.forget()
	}
}

// forget forgets the answer of a call.
func (c *keptCall) forget() {
	c.answer = nil
	c.answered.Remove()
}

// keptFrame is the frame to keep for a call that ended. In place of a large result it keeps the
// error that a repetition receives.
func keptFrame(body proto.Message, f *fault.Error) *busv1.Frame {
	switch b := body.(type) {
	case nil:
		if f != nil {
			return &busv1.Frame{Body: &busv1.Frame_Error{Error: wire.FromFault(f)}}
		}
	case *busv1.Result:
		if len(b.Json)+len(b.Meta) > maxKeptAnswer {
			return &busv1.Frame{Body: &busv1.Frame_Error{Error: wire.FromFault(fault.New(fault.ResultTooLarge, "the result is too large to be kept"))}}
		}
		// Not b itself: sending cuts it into pieces.
		return &busv1.Frame{Body: &busv1.Frame_Result{Result: &busv1.Result{Json: b.Json, Meta: b.Meta, IsError: b.IsError}}}
	case *busv1.InputRequired:
		return &busv1.Frame{Body: &busv1.Frame_InputRequired{InputRequired: &busv1.InputRequired{}}}
	case *busv1.Task:
		return &busv1.Frame{Body: &busv1.Frame_Task{Task: &busv1.Task{}}}
	}
	return &busv1.Frame{Body: &busv1.Frame_Error{Error: wire.FromFault(fault.New(fault.Internal, "the service gave no result"))}}
}

// wholeFrame is the unchanged frame that ends a call, nil for a large one; kept is the frame for
// repetitions.
func wholeFrame(body proto.Message, kept *busv1.Frame) *busv1.Frame {
	switch b := body.(type) {
	case *busv1.Result:
		if kept.GetResult() == nil {
			return nil
		}
		kept.GetResult().Replayed = b.Replayed
	case *busv1.InputRequired:
		if proto.Size(b) > maxKeptAnswer {
			return nil
		}
		return &busv1.Frame{Body: &busv1.Frame_InputRequired{InputRequired: b}}
	case *busv1.Task:
		return &busv1.Frame{Body: &busv1.Frame_Task{Task: b}}
	}
	return kept
}

// outcome returns what is known about a call.
func (k *keptCalls) outcome(id string) *busv1.Outcome {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := k.calls[FirstID(id)]
	switch {
	case c == nil && k.lost:
		return &busv1.Outcome{State: busv1.Outcome_STATE_FORGOTTEN}
	case c == nil:
		return &busv1.Outcome{State: busv1.Outcome_STATE_NEVER_BEGUN}
	case c.attempts > 0:
		return &busv1.Outcome{State: busv1.Outcome_STATE_RUNNING}
	case c.answer == nil || time.Since(c.at) > k.life:
		return &busv1.Outcome{State: busv1.Outcome_STATE_FORGOTTEN}
	}
	return &busv1.Outcome{State: busv1.Outcome_STATE_ENDED, Answer: c.answer}
}

// The methods that ask an instance for the outcome of a call: of one with an idempotency key, and
// of any for which it recently asked a permit.
const (
	callOutcome = "busbar/outcome"
	callAnswer  = "busbar/answer"
)

// outcomeTime limits such a request, which needs no slot.
const outcomeTime = 250 * time.Millisecond

// CallState is what an instance knows about a call.
type CallState = flow.Fate

// The answers of an instance that is asked about a call.
const (
	CallUnknown    = flow.NotKnown
	CallForgotten  = flow.Forgotten
	CallGone       = flow.WithInstance
	CallRunning    = flow.StillRuns
	CallNeverBegun = flow.NeverBegun
	CallEnded      = flow.HasEnded
)

// Outcome asks an instance of a service for the outcome of a call with an idempotency key. For a
// call that has ended, frame or err is its end. An instance that answers with an error will not
// know later either. It takes at most 250 ms.
func (c *Caller) Outcome(ctx context.Context, service, instance, call string) (state CallState, frame *busv1.Frame, err error) {
	state, frame, err = c.outcome(ctx, callOutcome, service, instance, call)
	if err != nil || state != CallEnded {
		return state, nil, err
	}
	a := &attempt{caller: c, service: service, id: call, state: flow.State{By: instance}}
	frame, failed := a.checked(frame)
	if failed != nil {
		return CallEnded, nil, failed
	}
	return CallEnded, frame, nil
}

// outcome is Outcome by either question. It does not validate the answer frame.
func (c *Caller) outcome(ctx context.Context, method, service, instance, call string) (CallState, *busv1.Frame, error) {
	if !subject.Token(service) || !subject.Token(instance) {
		return CallUnknown, nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, outcomeTime)
	defer cancel()
	deadline, _ := ctx.Deadline()
	id := NewID()
	data, err := c.conn.sealer(service).seal(&busv1.Request{Id: id, Method: method, Name: call, DeadlineUnixNano: uint64(deadline.UnixNano()), RemainingNano: uint64(outcomeTime)})
	if err != nil {
		return CallUnknown, nil, err
	}
	reply := subject.Reply(service, c.edge, id)
	x := c.expect(reply, "")
	defer c.forget(x)
	if err := c.conn.nc.PublishRequest(subject.To(service, instance, method), reply, data); err != nil {
		return CallUnknown, nil, nil
	}
	a := &attempt{
		caller: c, service: service, deadline: deadline, began: time.Now(), id: id, reply: reply, exchange: x, server: c.conn.server.Load(),
		state: flow.State{Terms: flow.Terms{Deadline: outcomeTime}, Until: flow.MaxSilence},
	}
	said, failed := a.wait(ctx)
	switch {
	case failed != nil && errors.Is(failed, errNoInstance):
		return CallGone, nil, nil
	case failed != nil && a.state.End == flow.Answered:
		return CallUnknown, nil, failed // it does not know this method
	case failed != nil || said.GetOutcome() == nil:
		return CallUnknown, nil, nil
	}
	switch o := said.GetOutcome(); o.State {
	case busv1.Outcome_STATE_RUNNING:
		return CallRunning, nil, nil
	case busv1.Outcome_STATE_NEVER_BEGUN:
		return CallNeverBegun, nil, nil
	case busv1.Outcome_STATE_FORGOTTEN:
		return CallForgotten, nil, nil
	case busv1.Outcome_STATE_ENDED:
		return CallEnded, o.Answer, nil
	}
	return CallUnknown, nil, nil
}
