package task

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/internal/wire"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// run is one attempt at one run of a task. All but said belongs to one
// goroutine.
type run struct {
	worker *worker
	tasks  *Store
	// stopped ends when the service must stop immediately.
	stopped context.Context
	msg     *nats.Msg
	id      string
	number  uint32

	// rec is the record as last read or written here.
	rec      *busv1.TaskRecord
	revision uint64
	// said is the latest status message not written yet.
	said atomic.Pointer[string]
}

// outcome is how a handler ended.
type outcome struct {
	body proto.Message
	err  *fault.Error
}

// carryOut runs the handler and stores its outcome.
func (r *run) carryOut() {
	w := r.worker
	deadline := expiry(r.rec)
	if limit := time.Now().Add(time.Duration(r.rec.TimeoutMs) * time.Millisecond); limit.Before(deadline) {
		deadline = limit
	}
	ctx, abort := context.WithDeadline(r.stopped, deadline)
	defer abort()
	req := proto.CloneOf(r.rec.Request)
	req.DeadlineUnixNano = uint64(deadline.UnixNano())
	ended := make(chan outcome, 1) // the handler may be left behind
	go func() {
		// A handler that calls runtime.Goexit ends this goroutine.
		out := outcome{err: fault.New(fault.Internal, "the handler of the task ended without a result; report this to the operator of service %s", w.service).Ran(fault.Unknown)}
		defer func() { ended <- out }()
		out.body, out.err = w.server.Run(ctx, req, func(ctx context.Context) (proto.Message, error) { return w.handler(ctx, req, r.say) })
	}()
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	overdue := time.NewTimer(time.Until(deadline) + bus.StopGrace)
	defer overdue.Stop()
	stopping := r.stopped.Done()
	var last <-chan time.Time
	for {
		select {
		case out := <-ended:
			if out.err != nil && r.stopped.Err() != nil {
				r.handOver()
				return
			}
			r.conclude(out)
			return
		case <-beat.C:
			if !r.beat() {
				abort()
				<-ended
				r.settle()
				return
			}
		case <-overdue.C: // it does not mind its context
			r.conclude(outcome{err: wire.TimedOut(w.service)})
			<-ended
			return
		case <-stopping:
			stopping, last = nil, time.After(bus.StopGrace/2)
		case <-last:
			r.handOver()
			return
		}
	}
}

// say keeps a status message for the next heartbeat.
func (r *run) say(message string) {
	message = fault.Clip(strings.ToValidUTF8(message, "\uFFFD"))
	r.said.Store(&message)
}

// beat sends a heartbeat, which keeps the task here. It returns false if the task no longer belongs
// to this attempt.
func (r *run) beat() bool {
	_ = r.msg.InProgress() // while NATS is away no other instance can take it
	ctx, cancel := context.WithTimeout(r.stopped, beatEvery)
	defer cancel()
	var held bool
	var err error
	if said := r.said.Swap(nil); said != nil && *said != r.rec.StatusMessage {
		held, err = r.write(ctx, func(rec *busv1.TaskRecord) { rec.StatusMessage = *said })
		if err != nil {
			r.said.CompareAndSwap(nil, said)
		}
	} else {
		held, err = r.look(ctx)
	}
	return held || err != nil
}

// look reads the record, and reports whether it still belongs to this attempt.
func (r *run) look(ctx context.Context) (held bool, err error) {
	rec, revision, err := r.tasks.read(ctx, r.id)
	if errors.Is(err, bus.ErrNoKey) {
		r.rec.Status = busv1.TaskStatus_TASK_STATUS_UNSPECIFIED // expired
		return false, nil
	}
	if err != nil {
		return false, err
	}
	held = rec.Status == busv1.TaskStatus_TASK_STATUS_WORKING && rec.Run == r.number &&
		rec.Attempt == r.rec.Attempt && rec.Worker == r.rec.Worker
	if held {
		r.revision = revision
	}
	r.rec = rec
	return held, nil
}

// write changes the record if it still belongs to this attempt.
func (r *run) write(ctx context.Context, change func(*busv1.TaskRecord)) (held bool, err error) {
	for {
		next := proto.CloneOf(r.rec)
		change(next)
		revision, err := r.tasks.write(ctx, next, r.revision)
		if err == nil {
			r.rec, r.revision = next, revision
			return true, nil
		}
		if !errors.Is(err, errMoved) {
			return false, err
		}
		if held, err := r.look(ctx); !held || err != nil {
			return false, err
		}
	}
}

// conclude stores the outcome of the run, however long that takes, because the run has had its
// effect. It retries often enough to keep the task here.
func (r *run) conclude(out outcome) {
	w := r.worker
	for {
		ctx, cancel := context.WithTimeout(r.stopped, beatEvery)
		_, err := r.write(ctx, func(rec *busv1.TaskRecord) { out.apply(rec, w.service) })
		cancel()
		switch {
		case err == nil:
			r.settle()
			return
		case out.err == nil && fault.Is(err, fault.TooLarge):
			out = outcome{err: fault.New(fault.ResultTooLarge, "the result of a task may have about 1 MiB. Ask for less, or have the tool return a resource link")}
			continue
		case out.err == nil && fault.Is(err, fault.Internal):
			out = outcome{err: fault.From(err)}
			continue
		case w.server.Conn().NATS().IsClosed():
			return
		}
		_ = r.msg.InProgress()
		select {
		case <-time.After(beatEvery / 5):
		case <-r.stopped.Done():
			w.server.Conn().Log().Error("the outcome of a task was not stored; another instance runs it again", "service", w.service, "task", r.id, "error", err)
			_ = r.msg.Nak()
			return
		}
	}
}

// apply writes the outcome of the run into a record.
func (o outcome) apply(rec *busv1.TaskRecord, service string) {
	switch body := o.body.(type) {
	case *busv1.Result:
		conclude(rec, busv1.TaskStatus_TASK_STATUS_COMPLETED, "")
		rec.Result = body
		return
	case *busv1.InputRequired:
		rec.Status, rec.StatusMessage = busv1.TaskStatus_TASK_STATUS_INPUT_REQUIRED, ""
		rec.InputRequests = body.InputRequests
		rec.Request.RequestState, rec.Request.InputResponses = body.RequestState, nil
		return
	}
	if o.err == nil {
		o.err = fault.New(fault.Internal, "service %s gave no result", service)
	}
	fail(rec, o.err)
}

func fail(rec *busv1.TaskRecord, f *fault.Error) {
	conclude(rec, busv1.TaskStatus_TASK_STATUS_FAILED, fault.Clip(strings.ToValidUTF8(f.Message, "\uFFFD")))
	rec.Error = wire.FromFault(f)
	rec.Error.Message = strings.ToValidUTF8(f.Message, "\uFFFD")
}

// settle removes the message from the queue if its run is over. If the run belongs to another
// attempt, that one removes it.
func (r *run) settle() {
	if r.rec.Status != busv1.TaskStatus_TASK_STATUS_WORKING || r.rec.Run != r.number {
		_ = r.msg.Ack()
	}
}

// handOver gives the task to another instance at once. This instance does not count as lost.
func (r *run) handOver() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.stopped), bus.StopGrace/2)
	defer cancel()
	held, err := r.write(ctx, func(rec *busv1.TaskRecord) { rec.Worker = "" })
	if err == nil && !held {
		r.settle()
		return
	}
	_ = r.msg.Nak()
}
