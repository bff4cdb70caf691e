package bus

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/fault"
)

const (
	// taskBeat is how often an instance says that it still runs a task, and looks
	// whether the task is still its own.
	taskBeat = time.Second
	// taskSilence is how long after the last beat another instance takes over.
	taskSilence = 3 * time.Second
	// maxLost is how many instances a run may lose before the task fails: what
	// kills one after the other must not go on for ever.
	maxLost = 5
	// taskPull is how long one request for a task waits at the server.
	taskPull = 20 * time.Second
)

// TaskHandler carries out one run of a task. say tells the client how far it
// is; it never blocks, and only the latest of each second arrives. For context,
// errors and panics see Handler.
type TaskHandler func(ctx context.Context, req *busv1.Request, say func(message string)) (proto.Message, error)

// taskWorker takes the tasks of one service, as many at once as it takes
// calls.
type taskWorker struct {
	server  *Server
	handler TaskHandler
	slots   chan struct{}
	stop    context.CancelFunc
	done    chan struct{}

	mu sync.Mutex
	// live has the run that goes on here, by task.
	live map[string]uint32
}

// ServeTasks takes the service's tasks too, until Drain. It waits in the
// background for an edge to have made the queue. Calling it again does
// nothing.
func (s *Server) ServeTasks(handler TaskHandler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tasks != nil || s.draining {
		return
	}
	ctx, stop := context.WithCancel(s.ctx)
	s.tasks = &taskWorker{
		server: s, handler: handler, slots: make(chan struct{}, s.cfg.Concurrency),
		stop: stop, done: make(chan struct{}), live: map[string]uint32{},
	}
	go s.tasks.pull(ctx)
}

// leaveTasks stops taking tasks; those that run go on.
func (s *Server) leaveTasks() {
	s.mu.Lock()
	s.draining = true
	w := s.tasks
	s.mu.Unlock()
	if w != nil {
		w.stop()
		<-w.done
	}
}

// pull takes tasks until ctx ends, through whatever happens to NATS.
func (w *taskWorker) pull(ctx context.Context) {
	defer close(w.done)
	for ctx.Err() == nil {
		err := w.work(ctx)
		if errors.Is(err, nats.ErrConnectionClosed) {
			return
		}
		if err != nil && ctx.Err() == nil {
			w.server.conn.log.Debug("no tasks can be taken; trying on", "service", w.server.cfg.Service, "error", err)
		}
		select {
		case <-time.After(jitter(500 * time.Millisecond)):
		case <-ctx.Done():
		}
	}
}

// work takes tasks until something fails.
func (w *taskWorker) work(ctx context.Context) error {
	s := w.server
	tasks, err := s.conn.Tasks(ctx)
	if err != nil {
		return err
	}
	consumer, err := s.conn.js.CreateOrUpdateConsumer(ctx, taskStream.Name, jetstream.ConsumerConfig{
		Durable: s.cfg.Service, FilterSubject: taskSubject(s.cfg.Service),
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: taskSilence, MaxDeliver: -1, MaxAckPending: 100_000,
		InactiveThreshold: 2 * taskAge,
	})
	if err != nil {
		return err
	}
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
		s.running.Add(1)
		go func() {
			defer s.running.Done()
			defer func() { <-w.slots }()
			w.begin(tasks, msg)
		}()
	}
}

// next waits for one message; nil when none came. It asks anew when NATS is
// back: the request before went with the server.
func (w *taskWorker) next(ctx context.Context, consumer jetstream.Consumer) (jetstream.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, taskPull)
	defer cancel()
	defer w.server.conn.OnReconnect(cancel)()
	batch, err := consumer.Fetch(1, jetstream.FetchContext(ctx))
	if err != nil {
		return nil, err
	}
	for msg := range batch.Messages() {
		return msg, nil
	}
	if ctx.Err() != nil {
		return nil, nil
	}
	return nil, batch.Error()
}

// begin decides what a message means, and carries out the run if it is due.
func (w *taskWorker) begin(tasks *Tasks, msg jetstream.Msg) {
	due := &busv1.TaskRun{}
	meta, err := msg.Metadata()
	if err != nil || proto.Unmarshal(msg.Data(), due) != nil || taskService(due.Id) != w.server.cfg.Service {
		_ = msg.Term()
		return
	}
	w.mu.Lock()
	run, busy := w.live[due.Id]
	if !busy {
		w.live[due.Id] = due.Run
	}
	w.mu.Unlock()
	switch {
	case busy && run == due.Run:
		return // NATS was away and offers what runs here: the beats count for it
	case busy:
		_ = msg.NakWithDelay(100 * time.Millisecond)
		return
	}
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.live, due.Id)
	}()
	r := &taskRun{worker: w, tasks: tasks, msg: msg, id: due.Id, run: due.Run}
	if r.take(meta) {
		r.carryOut()
	}
}

// take makes the run this instance's own, or settles the message.
func (r *taskRun) take(meta *jetstream.MsgMetadata) bool {
	s := r.worker.server
	// Patience grows with each delivery.
	later := func() {
		_ = r.msg.NakWithDelay(min(time.Duration(meta.NumDelivered)*100*time.Millisecond, 5*time.Second))
	}
	for {
		rec, revision, err := r.tasks.read(s.ctx, r.id)
		switch {
		case errors.Is(err, ErrNoKey) && meta.NumDelivered > 5, fault.Is(err, fault.Internal):
			_ = r.msg.Ack() // expired, or never told to anybody
			return false
		case err != nil:
			later()
			return false
		case r.run > rec.Run && !terminal(rec):
			later() // ahead of its record: see Tasks.Answer
			return false
		case r.run != rec.Run, rec.Status != busv1.TaskStatus_TASK_STATUS_WORKING,
			rec.Message != 0 && rec.Message != meta.Sequence.Stream:
			_ = r.msg.Ack() // over, or a copy
			return false
		}
		if rec.Worker != "" {
			rec.Lost++
		}
		rec.Attempt++
		rec.Worker, rec.Message = s.instance, meta.Sequence.Stream
		if rec.Lost >= maxLost {
			fail(rec, fault.New(fault.PeerLost, "%d instances of service %s began the task and were lost; whether it had its effect is unknown", rec.Lost, s.cfg.Service))
		}
		switch revision, err = r.tasks.write(s.ctx, rec, revision); {
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
