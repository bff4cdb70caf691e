package bus

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// taskRun is one attempt at one run of a task. All but said belongs to one
// goroutine.
type taskRun struct {
	worker *taskWorker
	tasks  *Tasks
	msg    jetstream.Msg
	id     string
	run    uint32

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

// carryOut runs the handler and stores what came of it.
func (r *taskRun) carryOut() {
	s := r.worker.server
	deadline := earlier(time.Now().Add(time.Duration(r.rec.TimeoutMs)*time.Millisecond), expiry(r.rec))
	ctx, abort := context.WithDeadline(s.ctx, deadline)
	defer abort()
	s.mu.Lock()
	s.live[r.id] = &liveCall{abort: abort}
	s.mu.Unlock()
	defer s.finish(r.id)

	req := proto.CloneOf(r.rec.Request)
	req.DeadlineUnixNano = uint64(deadline.UnixNano())
	ended := make(chan outcome, 1) // the handler may be left behind
	go func() {
		body, err := s.invoke(ctx, req, func() (proto.Message, error) { return r.worker.handler(ctx, req, r.say) })
		ended <- outcome{body, err}
	}()
	beat := time.NewTicker(taskBeat)
	defer beat.Stop()
	overdue := time.NewTimer(time.Until(deadline) + stopGrace)
	defer overdue.Stop()
	stopping := s.ctx.Done()
	var last <-chan time.Time
	for {
		select {
		case out := <-ended:
			if out.err != nil && s.ctx.Err() != nil {
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
			r.conclude(outcome{err: timedOut(s.cfg.Service)})
			<-ended
			return
		case <-stopping:
			stopping, last = nil, time.After(stopGrace/2)
		case <-last:
			r.handOver()
			return
		}
	}
}

// say keeps a status message for the next beat.
func (r *taskRun) say(message string) {
	message = fault.Clip(strings.ToValidUTF8(message, "\uFFFD"))
	r.said.Store(&message)
}

// beat keeps the task. It returns false when the task is not this attempt's
// any more.
func (r *taskRun) beat() bool {
	_ = r.msg.InProgress() // while NATS is away nobody else can take it either
	s := r.worker.server
	ctx, cancel := context.WithTimeout(s.ctx, taskBeat)
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

// look reads the record, and reports whether it is still this attempt's.
func (r *taskRun) look(ctx context.Context) (held bool, err error) {
	rec, revision, err := r.tasks.read(ctx, r.id)
	if errors.Is(err, ErrNoKey) {
		r.rec.Status = busv1.TaskStatus_TASK_STATUS_UNSPECIFIED // expired
		return false, nil
	}
	if err != nil {
		return false, err
	}
	held = rec.Status == busv1.TaskStatus_TASK_STATUS_WORKING && rec.Run == r.run &&
		rec.Attempt == r.rec.Attempt && rec.Worker == r.rec.Worker
	if held {
		r.revision = revision
	}
	r.rec = rec
	return held, nil
}

// write changes the record as long as it is this attempt's.
func (r *taskRun) write(ctx context.Context, change func(*busv1.TaskRecord)) (held bool, err error) {
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

// conclude stores what came of the run, however long that takes: it has had
// its effect. It tries often enough to keep the task.
func (r *taskRun) conclude(out outcome) {
	s := r.worker.server
	for {
		ctx, cancel := context.WithTimeout(s.ctx, taskBeat)
		_, err := r.write(ctx, func(rec *busv1.TaskRecord) { out.apply(rec, s.cfg.Service) })
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
		case s.conn.nc.IsClosed():
			return
		}
		_ = r.msg.InProgress()
		select {
		case <-time.After(taskBeat / 5):
		case <-s.ctx.Done():
			s.conn.log.Error("the outcome of a task was not stored; another instance runs it again", "service", s.cfg.Service, "task", r.id, "error", err)
			_ = r.msg.Nak()
			return
		}
	}
}

// apply makes a record say what came of the run.
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
	rec.Error = errorToWire(f)
	rec.Error.Message = strings.ToValidUTF8(f.Message, "\uFFFD")
}

// settle takes the message out of the queue if its run is over. Where another
// attempt is on it, that one does.
func (r *taskRun) settle() {
	if r.rec.Status != busv1.TaskStatus_TASK_STATUS_WORKING || r.rec.Run != r.run {
		_ = r.msg.Ack()
	}
}

// handOver gives the task to another instance at once. It does not count as
// lost.
func (r *taskRun) handOver() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.worker.server.ctx), stopGrace/2)
	defer cancel()
	held, err := r.write(ctx, func(rec *busv1.TaskRecord) { rec.Worker = "" })
	if err == nil && !held {
		r.settle()
		return
	}
	_ = r.msg.Nak()
}
