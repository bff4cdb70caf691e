// Package task keeps calls that continue as tasks. Each task has a record in a bucket, and each due
// run has a message in a queue; the record decides which attempt counts. Edges create and read
// tasks (Store), services run them (Serve). Start reading at Store.CreateFor and, for the instance,
// at worker.begin.
package task

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/internal/subject"
	"github.com/busbar-mcp/busbar/libs/bus/internal/wire"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// Times of tasks.
const (
	// Timeout bounds a run of a task whose tool has no limit of its own.
	//limit:time a run of a task, unless `Tool.Timeout` says otherwise | `deadline_exceeded`
	Timeout = time.Hour
	// Margin is how long a task is kept beyond the time of one run, for
	// answers to its questions and for its result to be fetched.
	Margin = time.Hour
	// MaxTimeout is the longest time limit of a tool that becomes a task.
	//limit:time longest run of a task | a longer `timeout` of the access file counts as this
	MaxTimeout = Age - Margin
	// Poll is how long clients are asked to wait between two requests for a task.
	Poll = time.Second
	// storedTime is roughly how long to wait until an announced write can be read.
	storedTime = 2 * time.Second
	// Age is the age limit of the bucket and the stream. It is a safety net: each record has its
	// own time limit.
	Age = 24 * time.Hour
)

// Stream is the queue of runs that are due. A message leaves it when its
// run is over.
var Stream = jetstream.StreamConfig{
	Name: "TASKS", Description: "runs of tasks that are due: mcp.task.<service>", Subjects: []string{subject.Tasks},
	Retention: jetstream.WorkQueuePolicy, Storage: jetstream.FileStorage, Discard: jetstream.DiscardNew,
	MaxAge: Age, MaxBytes: 64 << 20, MaxMsgSize: 1 << 10, MaxConsumers: 10_000,
}

// Store has the tasks: a record each in a bucket, and a message in a queue for
// each run that is due.
type Store struct {
	conn   *bus.Conn
	bucket *bus.Bucket
	room   Room

	mu sync.Mutex
	// queues is when each service's consumer was last checked.
	queues map[string]time.Time
}

// Open returns the tasks of a bus; package storage creates their bucket and stream.
func Open(conn *bus.Conn) *Store {
	return &Store{conn: conn, bucket: conn.Bucket(bus.TasksBucket), queues: map[string]time.Time{}}
}

// Room enforces the shares of services in a bucket.
type Room interface {
	// Admit refuses a service that exceeds its share while the bucket is tight.
	Admit(bucket, service string) error
	// MakeRoom first removes other services' entries beyond their shares from a full bucket, and
	// then does the same as Admit.
	MakeRoom(ctx context.Context, bucket, service string) error
}

// OpenIn is Open for a process that creates tasks: with room, that is possible even while a service
// fills the bucket.
func OpenIn(conn *bus.Conn, room Room) *Store {
	t := Open(conn)
	t.room = room
	return t
}

// Create is CreateFor without a credential.
func (t *Store) Create(ctx context.Context, service string, req *busv1.Request, begun *busv1.Task) (*busv1.TaskRecord, error) {
	return t.CreateFor(ctx, "", service, req, begun)
}

// CreateFor makes a task from a call that ended with begun. credential is the name, not the secret,
// of the credential that the caller used. It returns the task's record once it is stored and its
// first run is due; the run may already have begun. The error says executed unknown if the run may
// be due nevertheless.
func (t *Store) CreateFor(ctx context.Context, credential, service string, req *busv1.Request, begun *busv1.Task) (*busv1.TaskRecord, error) {
	timeout := time.Duration(min(begun.TimeoutMs, uint64(MaxTimeout.Milliseconds()))) * time.Millisecond
	if timeout == 0 {
		timeout = Timeout
	}
	// A task has progress and no logs, whatever the call asked for.
	req = proto.CloneOf(req)
	req.Id, req.DeadlineUnixNano, req.WantsProgress, req.LogLevel = newID(service), 0, true, 0
	req.RequestState, req.InputResponses = begun.RequestState, nil
	req.Stream, req.StreamAll, req.AskFirst, req.RemainingNano = "", false, false, 0
	rec := &busv1.TaskRecord{
		Request: req, Status: busv1.TaskStatus_TASK_STATUS_WORKING, Run: 1,
		CreatedUnixNano: uint64(time.Now().UnixNano()), TtlMs: uint64((timeout + Margin).Milliseconds()),
		PollIntervalMs: uint32(Poll.Milliseconds()), TimeoutMs: uint64(timeout.Milliseconds()), Credential: credential,
	}
	created, err := t.begin(ctx, service, rec)
	if err != nil {
		return nil, err
	}
	err = t.due(ctx, req.Id, 1)
	if err == nil {
		return rec, nil
	}
	// The message may be in the queue nevertheless. Without the record it has no effect; if a
	// worker took it, the worker has written the record, which then stays.
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	gone := t.bucket.DeleteAt(undo, req.Id, created)
	switch taken, revision, lost := t.read(undo, req.Id); {
	case gone == nil && errors.Is(lost, bus.ErrNoKey):
		return nil, err
	case lost == nil && revision != created && check(taken) == nil:
		return taken, nil
	}
	return nil, fault.From(err).Ran(fault.Unknown)
}

// roomTries is how often room is made for one record: a service may fill it again.
const roomTries = 5

// begin writes the first record of a task, and returns its revision. If the bucket is full, it
// makes room.
func (t *Store) begin(ctx context.Context, service string, rec *busv1.TaskRecord) (created uint64, err error) {
	if t.room != nil {
		if err := t.room.Admit(bus.TasksBucket, service); err != nil {
			return 0, err
		}
	}
	for try := 0; ; try++ {
		if created, err = t.write(ctx, rec, 0); !wire.Full(err) || t.room == nil || try == roomTries {
			return created, err
		}
		if err := t.room.MakeRoom(ctx, bus.TasksBucket, service); err != nil {
			return 0, fault.From(err)
		}
	}
}

// Get returns a task, or bus.ErrNoKey if no task has that id, or no longer. The caller must check
// who owns the task.
func (t *Store) Get(ctx context.Context, id string) (*busv1.TaskRecord, error) {
	rec, _, err := t.read(ctx, id)
	if err != nil {
		return nil, err
	}
	if err := check(rec); err != nil {
		t.conn.CountMalformed()
		t.conn.Log().Warn("a service keeps something malformed of a task", "service", serviceOf(id), "instance", rec.Worker, "task", id, "error", err)
		return nil, fault.New(fault.Internal, "service %s gave a malformed answer; the log of the edge names task %s", serviceOf(id), id)
	}
	return rec, nil
}

// Answer adds a client's answers, a JSON object, to a task. Answers to questions that are not open
// are ignored. After the last open question is answered, the next run is due.
func (t *Store) Answer(ctx context.Context, id string, answers []byte) error {
	var given map[string]jsontext.Value
	if err := json.Unmarshal(answers, &given); err != nil {
		return fault.New(fault.InvalidParams, "params.inputResponses must be an object").Because(err)
	}
	return t.change(ctx, id, func(rec *busv1.TaskRecord) (bool, error) {
		if rec.Status != busv1.TaskStatus_TASK_STATUS_INPUT_REQUIRED {
			return false, nil
		}
		open, all := map[string]jsontext.Value{}, map[string]jsontext.Value{}
		if err := json.Unmarshal(rec.InputRequests, &open); err != nil {
			return false, fault.From(err)
		}
		if len(rec.Request.InputResponses) > 0 {
			if err := json.Unmarshal(rec.Request.InputResponses, &all); err != nil {
				return false, fault.From(err)
			}
		}
		before := len(open)
		for key, answer := range given {
			if _, asked := open[key]; asked && answer.Kind() == '{' {
				all[key] = answer
				delete(open, key)
			}
		}
		if len(open) == before {
			return false, nil
		}
		var err error
		if rec.Request.InputResponses, err = json.Marshal(all, json.Deterministic(true)); err != nil {
			return false, err
		}
		if len(open) > 0 {
			rec.InputRequests, err = json.Marshal(open, json.Deterministic(true))
			return true, err
		}
		rec.Status, rec.StatusMessage, rec.InputRequests = busv1.TaskStatus_TASK_STATUS_WORKING, "", nil
		rec.Run++
		rec.Lost, rec.Worker, rec.Message = 0, "", 0
		if proto.Size(rec) > t.maxTask() {
			return false, tooLarge()
		}
		// First, so that an edge that dies here loses nothing: the worker waits for the record, and
		// the client, which got no reply, repeats the answer.
		return true, t.due(ctx, id, rec.Run)
	})
}

// Running calls f with each task that has not ended, in no order. Unreadable records are left out.
func (t *Store) Running(ctx context.Context, f func(*busv1.TaskRecord)) error {
	return t.bucket.Each(ctx, "", func(key string, value []byte) {
		rec := &busv1.TaskRecord{}
		if proto.Unmarshal(value, rec) == nil && rec.GetRequest().GetId() == key && !terminal(rec) && time.Now().Before(expiry(rec)) {
			f(rec)
		}
	})
}

// Cancel ends a task unless it is over, and tells the instance that runs it.
func (t *Store) Cancel(ctx context.Context, id string) error {
	_, err := t.End(ctx, id, "cancelled by the client")
	return err
}

// End is Cancel with a reason for people. It reports whether this call ended the task.
func (t *Store) End(ctx context.Context, id, why string) (cancelled bool, err error) {
	err = t.change(ctx, id, func(rec *busv1.TaskRecord) (bool, error) {
		cancelled = !terminal(rec)
		if cancelled {
			conclude(rec, busv1.TaskStatus_TASK_STATUS_CANCELLED, why)
		}
		return cancelled, nil
	})
	if err != nil || !cancelled {
		return false, err
	}
	t.conn.Cancel(serviceOf(id), id, string(fault.Cancelled)) // if this is lost, the worker's next look finds out
	return true, nil
}

// OnWrite calls f at every later change of a task, and when NATS is back after an outage, because
// there may have been changes. When f is called, the change can be read. f must not block. stop
// ends it.
func (t *Store) OnWrite(id string, f func()) (stop func(), err error) {
	if serviceOf(id) == "" {
		return func() {}, nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	heard, done := make(chan []byte, 1), make(chan struct{})
	unsubscribe, err := t.bucket.OnValue(id, func(_ string, value []byte) {
		select {
		case <-heard: // the newest is enough
		default:
		}
		heard <- value
	})
	if err != nil {
		cancel()
		return nil, err
	}
	go func() {
		defer close(done)
		for {
			select {
			case <-ctx.Done():
				return
			case value := <-heard:
				if t.stored(ctx, id, value); ctx.Err() == nil {
					f()
				}
			}
		}
	}()
	unhook := t.conn.OnReconnect(f)
	return func() { unhook(); unsubscribe(); cancel(); <-done }, nil
}

// stored waits until an announced write can be read: listeners receive it when its writer sends it,
// which may be before JetStream has stored it. A write that lost against another one is never
// stored; the other one is announced too.
func (t *Store) stored(ctx context.Context, id string, value []byte) {
	for wait := time.Millisecond; wait < storedTime; wait *= 2 {
		now, _, err := t.bucket.Look(ctx, id)
		if ctx.Err() != nil || err == nil && bytes.Equal(now, value) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// due puts a run into the queue. Repeating it has no effect.
func (t *Store) due(ctx context.Context, id string, run uint32) error {
	data, err := proto.Marshal(&busv1.TaskRun{Id: id, Run: run})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := t.ensureQueue(ctx, serviceOf(id)); err != nil {
		return wire.NotReached(err)
	}
	_, err = t.conn.JetStream().Publish(ctx, subject.Task(serviceOf(id)), data, jetstream.WithMsgID(fmt.Sprintf("%s.%d", id, run)))
	if err != nil {
		return wire.NotReached(err)
	}
	return nil
}

// queueEvery is how often the consumer of a service is checked.
const queueEvery = time.Minute

// ensureQueue creates the consumer that the instances of a service share.
func (t *Store) ensureQueue(ctx context.Context, service string) error {
	t.mu.Lock()
	seen := t.queues[service]
	t.mu.Unlock()
	if time.Since(seen) < queueEvery {
		return nil
	}
	_, err := t.conn.JetStream().CreateOrUpdateConsumer(ctx, Stream.Name, jetstream.ConsumerConfig{
		Durable: service, FilterSubject: subject.Task(service),
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: silence, MaxDeliver: -1, MaxAckPending: 100_000,
		InactiveThreshold: 2 * Age,
	})
	if err == nil {
		t.mu.Lock()
		t.queues[service] = time.Now()
		t.mu.Unlock()
	}
	return err
}

// read returns a record and its revision.
func (t *Store) read(ctx context.Context, id string) (*busv1.TaskRecord, uint64, error) {
	if serviceOf(id) == "" {
		return nil, 0, bus.ErrNoKey
	}
	value, revision, err := t.bucket.Look(ctx, id)
	if err == nil && revision == 0 {
		err = bus.ErrNoKey
	}
	if err != nil {
		return nil, 0, err
	}
	rec := &busv1.TaskRecord{}
	if err := proto.Unmarshal(value, rec); err != nil || rec.GetRequest().GetId() != id {
		return nil, 0, fault.New(fault.Internal, "the record of the task cannot be read").Because(err)
	}
	if !time.Now().Before(expiry(rec)) {
		return nil, 0, bus.ErrNoKey
	}
	return rec, revision, nil
}

// errMoved means that another writer changed a record in between.
var errMoved = errors.New("the record has changed")

// errUnanswered means that it is unknown whether a record was written.
var errUnanswered = errors.New("the write was not answered")

// write stores a record over the given revision, 0 for none, and returns the new revision. Each
// write sets the remaining time to live, because a write discards the earlier one.
func (t *Store) write(ctx context.Context, rec *busv1.TaskRecord, revision uint64) (uint64, error) {
	rec.UpdatedUnixNano = uint64(time.Now().UnixNano())
	if proto.Size(rec) > t.maxTask() {
		return 0, tooLarge()
	}
	data, err := proto.Marshal(rec)
	if err != nil {
		return 0, fault.New(fault.Internal, "the record of the task cannot be written").Because(err)
	}
	msg := nats.NewMsg(subject.Key(bus.TasksBucket, rec.Request.Id))
	msg.Data = data
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	ack, err := t.conn.JetStream().PublishMsg(ctx, msg, jetstream.WithExpectLastSequencePerSubject(revision),
		jetstream.WithMsgTTL(max(0, time.Until(expiry(rec)))+time.Second))
	switch {
	case errors.Is(err, jetstream.ErrKeyRevisionMismatch), errors.Is(err, jetstream.ErrKeyExists):
		return 0, errMoved
	case err != nil && !wire.Refused(err):
		return 0, wire.NotReached(errors.Join(errUnanswered, err))
	case err != nil:
		return 0, wire.NotReached(err)
	}
	return ack.Sequence, nil
}

// change lets f modify a record; f is called again if another writer is faster. If f returns false,
// nothing is written. The error of a write that may be stored nevertheless says executed unknown.
func (t *Store) change(ctx context.Context, id string, f func(*busv1.TaskRecord) (bool, error)) error {
	return bus.Swap(func() (bool, error) {
		rec, revision, err := t.read(ctx, id)
		if err != nil {
			return false, err
		}
		if changed, err := f(rec); err != nil || !changed {
			return true, err
		}
		switch _, err = t.write(ctx, rec, revision); {
		case errors.Is(err, errMoved):
			return false, nil
		case errors.Is(err, errUnanswered):
			return true, fault.From(err).Ran(fault.Unknown)
		}
		return true, err
	})
}

// maxTask is the largest record: a message of the bus less its headers.
func (t *Store) maxTask() int { return int(t.conn.NATS().MaxPayload()) - 1<<10 }

func tooLarge() *fault.Error {
	return fault.New(fault.TooLarge, "what a task keeps exceeds the limit of about 1 MiB; pass or return less, or a resource link")
}

// conclude ends a task. It keeps only the name and owner of the request: the arguments are no
// longer needed.
func conclude(rec *busv1.TaskRecord, status busv1.TaskStatus, message string) {
	r := rec.Request
	rec.Request = &busv1.Request{Id: r.Id, Method: r.Method, Name: r.Name, Identity: r.Identity}
	rec.Status, rec.StatusMessage, rec.InputRequests = status, message, nil
}

func terminal(rec *busv1.TaskRecord) bool {
	return rec.Status != busv1.TaskStatus_TASK_STATUS_WORKING && rec.Status != busv1.TaskStatus_TASK_STATUS_INPUT_REQUIRED
}

// expiry is when a task is forgotten.
func expiry(rec *busv1.TaskRecord) time.Time {
	return time.Unix(0, int64(rec.CreatedUnixNano)).Add(time.Duration(rec.TtlMs) * time.Millisecond)
}

// newID returns a task's id. It begins with the service, so that NATS permissions can separate the
// tasks of services; the rest cannot be guessed.
func newID(service string) string { return service + "." + bus.NewID() }

// serviceOf is the service of a task, empty for a malformed id.
func serviceOf(id string) string {
	service, token, _ := strings.Cut(id, ".")
	if !subject.Token(service) || len(token) != tokenLength {
		return ""
	}
	for i := range len(token) {
		if c := token[i]; (c < 'A' || c > 'Z') && (c < '2' || c > '7') {
			return ""
		}
	}
	return service
}

// tokenLength is the length of bus.NewID.
const tokenLength = 26

// check checks a record that a service wrote.
func check(rec *busv1.TaskRecord) error {
	_, err := wire.Fault(rec.Error, "", false)
	return errors.Join(err, wire.CheckResult(rec.GetRequest().GetMethod(), rec.Result), wire.CheckQuestions(rec.InputRequests))
}

// Error returns the fault of a failed task.
func Error(rec *busv1.TaskRecord) *fault.Error {
	f, err := wire.Fault(rec.Error, "", false)
	if err != nil {
		return fault.From(err)
	}
	return f
}
