package task

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/internal/wire"
	"github.com/busbar-mcp/busbar/libs/fault"
)

const (
	// beatEvery is how often an instance sends a heartbeat for its task, and checks whether the
	// task is still its own.
	beatEvery = time.Second
	// silence is how long after the last heartbeat another instance takes over.
	//limit:silence silence of an instance that runs a task | another instance runs it
	silence = 3 * time.Second
	// maxLost is how many instances a run may lose before the task fails: a run that kills
	// instances must not continue forever.
	//limit:call instances that one run of a task may lose | `peer_lost`
	maxLost = 5
	// pullTime is how long one request for a task waits at the server.
	pullTime = 20 * time.Second
)

// Handler carries out one run of a task. say tells the client how far it has come; it never blocks,
// and only the latest message of each second arrives. For context, errors and panics see
// bus.Handler.
type Handler func(ctx context.Context, req *busv1.Request, say func(message string)) (proto.Message, error)

// worker runs the tasks of one service, as many concurrently as the server runs calls.
type worker struct {
	server  *bus.Server
	service string
	handler Handler
	slots   chan struct{}

	mu sync.Mutex
	// live maps each task to the number of its run in progress here.
	live map[string]uint32
}

// Serve takes the tasks of a server's service too, until the server's Drain. It waits in the
// background until an edge has created the queue.
func Serve(s *bus.Server, handler Handler) {
	cfg := s.Config()
	w := &worker{server: s, service: cfg.Service, handler: handler, slots: make(chan struct{}, cfg.Concurrency), live: map[string]uint32{}}
	s.Fetch(w.pull)
}

func (w *worker) pull(ctx context.Context) {
	for ctx.Err() == nil {
		err := w.work(ctx)
		if errors.Is(err, nats.ErrConnectionClosed) {
			return
		}
		if err != nil && ctx.Err() == nil {
			w.server.Conn().Log().Debug("no tasks can be taken; trying on", "service", w.service, "error", err)
		}
		select {
		case <-time.After(wire.Jitter(500 * time.Millisecond)):
		case <-ctx.Done():
		}
	}
}

// work takes tasks until something fails.
func (w *worker) work(ctx context.Context) error {
	conn := w.server.Conn()
	// Edges create the consumer, because its creator decides where its messages go.
	consumer, err := conn.Pull(Stream.Name, w.service)
	if err != nil {
		return err
	}
	defer func() { _ = consumer.Unsubscribe() }()
	for {
		select {
		case w.slots <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		msg, err := w.next(ctx, consumer)
		if err == nil && msg != nil && ctx.Err() != nil {
			_ = msg.Nak()
			msg = nil
		}
		if msg == nil {
			<-w.slots
			if err != nil {
				return err
			}
			continue
		}
		w.server.Go(func(stopped context.Context) {
			defer func() { <-w.slots }()
			w.begin(stopped, msg)
		})
	}
}

// next waits for one message; nil if none came. It repeats the request when NATS is back: the
// earlier one was lost with the server.
func (w *worker) next(ctx context.Context, consumer *nats.Subscription) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, pullTime)
	defer cancel()
	defer w.server.Conn().OnReconnect(cancel)()
	batch, err := consumer.Fetch(1, nats.Context(ctx))
	for _, msg := range batch {
		return msg, nil
	}
	if ctx.Err() != nil || errors.Is(err, nats.ErrTimeout) {
		return nil, nil
	}
	return nil, err
}

// begin decides what a message means, and carries out the run if it is due.
func (w *worker) begin(stopped context.Context, msg *nats.Msg) {
	due := &busv1.TaskRun{}
	meta, err := msg.Metadata()
	if err != nil || proto.Unmarshal(msg.Data, due) != nil || serviceOf(due.Id) != w.service {
		_ = msg.Term()
		return
	}
	w.mu.Lock()
	going, busy := w.live[due.Id]
	if !busy {
		w.live[due.Id] = due.Run
	}
	w.mu.Unlock()
	switch {
	case busy && going == due.Run:
		return // NATS was away and offers a run that is in progress here: its heartbeats count
	case busy:
		_ = msg.NakWithDelay(100 * time.Millisecond)
		return
	}
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.live, due.Id)
	}()
	r := &run{worker: w, tasks: Open(w.server.Conn()), stopped: stopped, msg: msg, id: due.Id, number: due.Run}
	if r.take(meta) {
		r.carryOut()
	}
}

// take claims the run for this instance, or settles the message.
func (r *run) take(meta *nats.MsgMetadata) bool {
	w := r.worker
	// The wait grows with each delivery.
	later := func() {
		_ = r.msg.NakWithDelay(min(time.Duration(meta.NumDelivered)*100*time.Millisecond, 5*time.Second))
	}
	for {
		rec, revision, err := r.tasks.read(r.stopped, r.id)
		switch {
		case errors.Is(err, bus.ErrNoKey) && meta.NumDelivered > 5, fault.Is(err, fault.Internal):
			_ = r.msg.Ack() // expired, or its creation failed
			return false
		case err != nil:
			later()
			return false
		case r.number > rec.Run && !terminal(rec):
			later() // ahead of its record: see Store.Answer
			return false
		case r.number != rec.Run, rec.Status != busv1.TaskStatus_TASK_STATUS_WORKING,
			rec.Message != 0 && rec.Message != meta.Sequence.Stream:
			_ = r.msg.Ack() // over, or a copy
			return false
		}
		if rec.Worker != "" {
			rec.Lost++
		}
		rec.Attempt++
		rec.Worker, rec.Message = w.server.Instance(), meta.Sequence.Stream
		if rec.Lost >= maxLost {
			fail(rec, fault.New(fault.PeerLost, "%d instances of service %s began the task and were lost; whether it had its effect is unknown", rec.Lost, w.service))
		}
		switch revision, err = r.tasks.write(r.stopped, rec, revision); {
		case errors.Is(err, errMoved):
			continue
		case err != nil:
			later()
			return false
		case terminal(rec):
			_ = r.msg.Ack()
			return false
		}
		r.rec, r.revision = rec, revision
		return true
	}
}
