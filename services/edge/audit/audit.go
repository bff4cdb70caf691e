// Package audit is the edge's part of the audit trail. It records every call, and its
// events reach the audit service even if the bus or the service is away for a while.
//
// Two kinds of calls are treated differently. A call with an effect begins only when its
// first record is safe, and its answer is given only when its last one is: stored by
// NATS, or synced to the spool on disk. The records of all other calls wait in memory and
// are sent soon after, in groups. If there is no room, they may be dropped.
//
// Start with Trail in audit.go: Begin and Record put records in, and run (forward.go)
// sends the queues and the spools. queue.go, spool.go and refusal.go bound memory, disk
// and floods of refusals; event.go says what is recorded of a call.
package audit

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"hash/maphash"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/auditlog"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

const (
	// spoolTime is how long a record of a call with an effect waits while the trail takes
	// no event at all, before it goes to the spool. Without a spool, the record of a
	// beginning waits for beginTime: while the servers of the stream elect a leader, the
	// client learns of that within a second.
	//limit:record@spoolTime time to record the end of a call in the audit trail, with a spool | it goes to the spool
	//limit:record@beginTime time to record the start of a call in the audit trail | `unavailable`
	spoolTime, beginTime = 500 * time.Millisecond, 900 * time.Millisecond
	// appendTime bounds every wait. It is also the wait of records that no call waits
	// for, or that have nowhere else to go.
	//limit:record time to record the end of a call in the audit trail, without a spool | `unavailable`
	appendTime = 2 * time.Second
	// lookTime bounds a look at the trail.
	lookTime = 700 * time.Millisecond
	// checkEvery is how often the edge asks whether the trail has room, and whether it
	// takes events again. It asks more often while the trail is rather full.
	checkEvery   = 500 * time.Millisecond
	checkSoonest = 50 * time.Millisecond
	// linger is how long an event that nobody waits for is delayed, so that several go as
	// one message.
	linger = 5 * time.Millisecond
	// group bounds the events of one message.
	group = 256
	// The events that wait in memory, in each of two queues.
	maxQueued = 8192
	//limit:kept audit events that wait in the memory of an edge | some are lost, and counted
	maxQueuedBytes = 16 << 20
	// DefaultSpoolBytes bounds the events that wait on disk.
	//limit:kept the spool of audit events of an edge
	DefaultSpoolBytes = 64 << 20
)

// Config says how an edge records.
type Config struct {
	// Edge is the edge's name on the bus.
	Edge string
	// Key makes the digests of values that are not recorded themselves. All edges need
	// the same key.
	Key []byte
	// SpoolDir keeps events that the bus does not take, until it does. Several edges of
	// one bus may share it: another edge sends the events that a dead edge left there.
	// Empty: events are kept in memory, and dropped when that is full.
	SpoolDir string
	// SpoolBytes defaults to DefaultSpoolBytes. Half of it is for calls with effects, and half
	// of that for their ends alone.
	SpoolBytes int64
	// RefusalWindow is how long calls that are refused alike count as one event; zero is
	// a minute.
	RefusalWindow time.Duration
	Logger        *slog.Logger
}

// Trail is a gateway.Auditor that publishes to the audit trail.
//
// Events of calls with effects are stored by NATS, or synced to the spool, before the
// call goes on. Events of other calls are sent soon after.
type Trail struct {
	cfg  Config
	conn *bus.Conn
	log  *auditlog.Log
	// spool and ends are nil if there is no spool.
	spool, ends *spool
	// orphaned is why spools of other edges could not be taken over last; only run uses
	// it.
	orphaned string
	// unrenewed is why a lost spool could not be made again last; only run uses it.
	unrenewed string
	// digests are hash.Hash with the key, which are expensive to make.
	digests  sync.Pool
	refusals refusals
	wake     chan struct{}
	look     chan struct{} // the trail is rather full
	quit     chan struct{}
	done     chan struct{}

	mu sync.Mutex
	// waiting are the queues for auditlog.Read and auditlog.End: a flood of the former
	// takes no room of the latter.
	waiting map[auditlog.Use]*queue
	dropped uint64
	failing error // why the trail took no event last; nil if it took one
	away    error // why the trail could not be checked last; nil if it could
	unsaved error // why the spool took no record of a call with an effect last; nil if it took one
	full    error // why it had no room for beginnings last; nil if it had
	looked  time.Time
	taken   time.Time // when it took an event last
}

// New begins to record. Close the trail before the connection.
func New(conn *bus.Conn, cfg Config) (*Trail, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.SpoolBytes <= 0 {
		cfg.SpoolBytes = DefaultSpoolBytes
	}
	if cfg.RefusalWindow <= 0 {
		cfg.RefusalWindow = refusalWindow
	}
	log, err := auditlog.New(conn, cfg.Edge)
	if err != nil {
		return nil, err
	}
	t := &Trail{
		cfg: cfg, conn: conn, log: log, refusals: refusals{seed: maphash.MakeSeed()},
		waiting: map[auditlog.Use]*queue{auditlog.Read: newQueue(), auditlog.End: newQueue()},
		wake:    make(chan struct{}, 1), look: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}),
	}
	if cfg.SpoolDir != "" {
		if t.spool, err = openSpool(cfg.SpoolDir, cfg.SpoolBytes/2, cfg.Logger); err != nil {
			return nil, err
		}
		if t.ends, err = openSpool(filepath.Join(cfg.SpoolDir, "ends"), cfg.SpoolBytes/2, cfg.Logger); err != nil {
			t.spool.close()
			return nil, err
		}
	}
	t.digests.New = func() any { return hmac.New(sha256.New, cfg.Key) }
	t.check()
	go t.run()
	return t, nil
}

// Ready implements gateway.Auditor. It does not ask the bus.
func (t *Trail) Ready(gateway.View) error {
	if err := t.unready(); err != nil {
		return refused(err)
	}
	return nil
}

// Begin implements gateway.Auditor.
func (t *Trail) Begin(ctx context.Context, v gateway.View) error {
	err := t.unready()
	if err != nil {
		return refused(err)
	}
	record, err := t.begun(v)
	if err == nil {
		err = t.save(ctx, auditlog.Begin, record) // fault:beginning-unrecorded
	}
	if err != nil {
		return refused(err)
	}
	return nil
}

// Record implements gateway.Auditor.
func (t *Trail) Record(ctx context.Context, r gateway.Record) error {
	account := r.Account
	if account == "" { // refused before an account was known
		account = gateway.Account(gateway.Anonymous, r.Credentials)
	}
	if t.alike(account, r) {
		return nil
	}
	record, err := t.ended(r)
	switch {
	case err != nil:
		t.drop()
	case r.Effect():
		if err = t.save(ctx, auditlog.End, record); err != nil { // fault:end-unrecorded
			t.put(auditlog.End, item{account, late(record)})
		}
	case r.Begun:
		t.put(auditlog.End, item{account, record})
	default:
		t.put(auditlog.Read, item{account, record})
	}
	if err == nil || !r.Effect() {
		return nil
	}
	return fault.New(fault.Unavailable, "the call ran, but that could not be recorded in the audit trail, so its answer is withheld; do not repeat it").
		Ran(fault.Yes).Because(err)
}

// save makes a record of a call with an effect safe: in the trail or, while the trail
// takes no events, in the spool on disk, from where it is sent as soon as possible. So a
// call does not wait while the servers of the stream elect a leader.
func (t *Trail) save(ctx context.Context, use auditlog.Use, record []byte) error {
	if t.ends == nil {
		within := appendTime
		if use == auditlog.Begin {
			within = beginTime
		}
		return t.append(ctx, within, record)
	}
	why := t.stalled()
	if why == nil {
		why = t.append(ctx, spoolTime, record)
	}
	if why == nil {
		return nil
	}
	err := t.ends.add(true, use, late(record))
	t.mu.Lock()
	t.unsaved = err
	t.mu.Unlock()
	if err != nil {
		return errors.Join(why, err)
	}
	return nil
}

// refused is the error of a call that may not run for lack of a record.
func refused(err error) error {
	e := fault.New(fault.Unavailable, "the audit trail cannot be written, so calls that may have an effect are refused; read-only calls go on; try again shortly").
		Ran(fault.No).Because(err)
	e.RetryAfter = time.Second
	return e
}

// unready returns why calls with effects must not begin now. While the spool has room,
// they may begin although the trail takes no event.
func (t *Trail) unready() error {
	if err := t.closed(); err != nil {
		return err
	}
	why := t.stalled()
	if why == nil || t.ends == nil {
		return why
	}
	if err := t.ends.admits(auditlog.Begin); err != nil {
		return errors.Join(why, err)
	}
	return nil
}

// closed returns why no record of a beginning may be sent to the trail.
func (t *Trail) closed() error {
	if t.conn.Away() {
		return errBusAway
	}
	err := t.log.Room(auditlog.Begin)
	if err != nil {
		t.lookSoon()
	}
	return cause(err)
}

// stalled returns why the trail took no event last, or could not be checked.
func (t *Trail) stalled() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return errors.Join(t.failing, t.away)
}

// consequence says for the log how calls are affected while the trail takes no event.
func (t *Trail) consequence() string {
	if t.ends != nil {
		return "calls with effects are recorded in the spool while it has room"
	}
	return "calls with effects are refused"
}

var errBusAway = errors.New("the bus is not reachable")

// errIdle is why the edge stops waiting for records.
var errIdle = errors.New("nothing has been stored for too long: if the disk of NATS was full, make room and then restart nats-server")

// append sends records and waits until they are safe, whether or not the client still
// waits.
//
// There are two time limits. appendTime bounds the whole wait. within bounds the time in
// which the trail has taken nothing at all: on a slow disk, records also wait for those
// before them, so a trail that still takes other records gets more time.
//
// The error is errIdle if the second limit has passed. If the first one has passed
// although the trail took records meanwhile, its disk is slow, and the failure is not
// remembered (appended): the next records may do better. Any other result is remembered,
// so that later records go to the spool at once.
func (t *Trail) append(ctx context.Context, within time.Duration, records ...[]byte) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), appendTime)
	defer cancel()
	began := time.Now()
	var check func()
	check = func() {
		switch left := t.patience(began, within); {
		case ctx.Err() != nil: // nobody waits
		case left > 0:
			time.AfterFunc(left, check)
		default:
			cancel()
		}
	}
	idle := time.AfterFunc(within, check)
	defer idle.Stop()
	err := t.log.AppendRecords(ctx, records...)
	switch {
	case errors.Is(err, context.DeadlineExceeded) && t.storedSince(began):
		return err // its disk is slow: the next ones may do better
	case errors.Is(err, context.Canceled):
		err = errIdle
	}
	return t.appended(err)
}

// patience is the rest of the time within, counted from when the trail last took an
// event, but not from before since.
func (t *Trail) patience(since time.Time, within time.Duration) (left time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.taken.After(since) {
		since = t.taken
	}
	return time.Until(since.Add(within))
}

// appended remembers whether records were taken.
func (t *Trail) appended(err error) error {
	t.mu.Lock()
	before := t.failing
	if t.failing = cause(err); err == nil {
		t.taken = time.Now()
	}
	t.mu.Unlock()
	switch {
	case err != nil && before == nil:
		t.cfg.Logger.Error("the audit trail cannot be written; "+t.consequence(), "error", err)
	case err == nil && before != nil:
		t.cfg.Logger.Info("the audit trail is written again")
	}
	if s := t.log.State(); err != nil || s.Limit > 0 && s.Bytes > s.Limit/2 {
		t.lookSoon()
	}
	return err
}

// lookSoon makes run check the trail.
func (t *Trail) lookSoon() {
	select {
	case t.look <- struct{}{}:
	default:
	}
}

// put hands a record to run.
func (t *Trail) put(use auditlog.Use, i item) {
	t.mu.Lock()
	first := t.queued() == 0
	t.waiting[use].put(i)
	t.mu.Unlock()
	if !first {
		return // run has been told
	}
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// queued is how many events wait in memory. The caller holds mu.
func (t *Trail) queued() (n int) {
	for _, q := range t.waiting {
		n += q.All.Items
	}
	return n
}

// drop counts a record that is lost.
func (t *Trail) drop() {
	t.mu.Lock()
	t.dropped++
	t.mu.Unlock()
}

// take removes a group of records from a queue, up to a size in bytes; back puts them
// back.
func (t *Trail) take(use auditlog.Use, bytes int) []item {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.waiting[use].take(group, bytes)
}

func (t *Trail) back(use auditlog.Use, batch []item) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting[use].back(batch)
}
