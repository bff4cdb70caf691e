// Package audit is the edge's part of the audit trail: what it says of each
// call, and how that reaches the audit service whatever is away meanwhile.
package audit

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

const (
	// appendTime bounds how long a call waits for its record.
	appendTime = 2 * time.Second
	// checkEvery is how often the trail is looked at: whether it has room, and
	// whether it takes events again.
	checkEvery = 500 * time.Millisecond
	// linger is how long an event that nobody waits for waits for others, so that
	// they go as one message.
	linger = 5 * time.Millisecond
	// group bounds the events that are sent at once.
	group = 256
	// What waits in memory.
	maxQueued      = 8192
	maxQueuedBytes = 16 << 20
	// DefaultSpoolBytes is what waits on disk.
	DefaultSpoolBytes = 64 << 20
)

// Config says how an edge records.
type Config struct {
	// Edge is its name on the bus.
	Edge string
	// Key makes the digests of what is not recorded itself. All edges need the
	// same.
	Key []byte
	// SpoolDir keeps events that the bus does not take, until it does. Several
	// edges of one bus may share it; what an edge that died left there another one
	// sends.
	// Empty: they are kept in memory, and dropped when that is full.
	SpoolDir string
	// SpoolBytes defaults to DefaultSpoolBytes.
	SpoolBytes int64
	Logger     *slog.Logger
}

// Trail is a gateway.Auditor that publishes to the audit trail.
//
// Events of calls with effects are stored by NATS, or synced to the spool,
// before the call goes on. Those of other calls are sent soon after.
type Trail struct {
	cfg   Config
	conn  *bus.Conn
	log   *bus.AuditLog
	spool *spool // nil for none
	// orphaned is why spools of other edges could not be taken last; of run only.
	orphaned string
	// digests are hash.Hash with the key, which are dear to make.
	digests sync.Pool
	wake    chan struct{}
	quit    chan struct{}
	done    chan struct{}

	mu      sync.Mutex
	queue   [][]byte // events, marshalled
	bytes   int
	dropped uint64
	failing error // why the trail took no event last; nil when it did
	full    error // why it should not be given more; nil when it may
}

// New begins to record. Close the trail before the connection.
func New(conn *bus.Conn, cfg Config) (*Trail, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.SpoolBytes <= 0 {
		cfg.SpoolBytes = DefaultSpoolBytes
	}
	log, err := conn.AuditLog(cfg.Edge)
	if err != nil {
		return nil, err
	}
	t := &Trail{
		cfg: cfg, conn: conn, log: log,
		wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}),
	}
	if cfg.SpoolDir != "" {
		if t.spool, err = openSpool(cfg.SpoolDir, cfg.SpoolBytes); err != nil {
			return nil, err
		}
	}
	t.digests.New = func() any { return hmac.New(sha256.New, cfg.Key) }
	t.check()
	go t.run()
	return t, nil
}

// Begin implements gateway.Auditor.
func (t *Trail) Begin(ctx context.Context, c *gateway.Call) error {
	if err := t.unready(); err != nil {
		return refused(err)
	}
	record, err := t.begun(c)
	if err == nil {
		err = t.append(ctx, record)
	}
	if err != nil {
		return refused(err)
	}
	return nil
}

// Record implements gateway.Auditor.
func (t *Trail) Record(ctx context.Context, r gateway.Record) error {
	record, err := t.ended(r)
	switch {
	case err != nil:
		t.drop()
	case !r.Effect():
		t.put(record)
	default:
		err = t.append(ctx, record)
		if err != nil {
			err = t.postpone(record, err)
		}
	}
	if err == nil || !r.Effect() {
		return nil
	}
	return fault.New(fault.Unavailable, "the call ran, but that could not be recorded in the audit trail, so its answer is withheld; do not repeat it").
		Ran(fault.Yes).Because(err)
}

// postpone keeps a record that the trail did not take, and returns nil when it
// is safe.
func (t *Trail) postpone(record []byte, why error) error {
	record = late(record)
	if t.spool != nil {
		err := t.spool.add(true, record)
		if err == nil {
			return nil
		}
		why = errors.Join(why, err)
	}
	t.put(record)
	return why
}

func refused(err error) error {
	e := fault.New(fault.Unavailable, "the audit trail cannot be written, so calls that may have an effect are refused; read-only calls go on; try again shortly").
		Ran(fault.No).Because(err)
	e.RetryAfter = time.Second
	return e
}

// unready returns why calls with effects must not begin now.
func (t *Trail) unready() error {
	if !t.conn.Connected() {
		return errors.New("the bus is not reachable")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return errors.Join(t.failing, t.full)
}

// append sends records and waits until they are safe, whether or not the client
// still does.
func (t *Trail) append(ctx context.Context, records ...[]byte) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), appendTime)
	defer cancel()
	err := t.log.AppendRecords(ctx, records...)
	t.mu.Lock()
	before := t.failing
	t.failing = err
	t.mu.Unlock()
	switch {
	case err != nil && before == nil:
		t.cfg.Logger.Error("the audit trail cannot be written; calls with effects are refused", "error", err)
	case err == nil && before != nil:
		t.cfg.Logger.Info("the audit trail is written again")
	}
	return err
}

// put leaves a record to run, or drops it when too much waits.
func (t *Trail) put(record []byte) {
	t.mu.Lock()
	first := len(t.queue) == 0
	if len(t.queue) >= maxQueued || t.bytes+sizeOf(record) > maxQueuedBytes {
		t.dropped++
	} else {
		t.queue, t.bytes = append(t.queue, record), t.bytes+sizeOf(record)
	}
	t.mu.Unlock()
	if !first {
		return // run has been told
	}
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// drop counts a record that is lost.
func (t *Trail) drop() {
	t.mu.Lock()
	t.dropped++
	t.mu.Unlock()
}

// take removes up to n records from the queue.
func (t *Trail) take(n int) [][]byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	batch := t.queue[:min(n, len(t.queue))]
	t.queue = t.queue[len(batch):]
	for _, record := range batch {
		t.bytes -= sizeOf(record)
	}
	if len(t.queue) == 0 {
		t.queue = nil
	}
	return batch
}

// sizeOf is what a record takes in memory, about.
func sizeOf(record []byte) int { return len(record) + 64 }

// Stats are counts of a trail.
type Stats struct {
	// Queued events wait in memory, Spooled bytes on disk.
	Queued  int
	Spooled int64
	// Dropped events are lost: of calls without effects, and of answers that
	// were withheld.
	Dropped uint64
}

// Stats returns the counts of now.
func (t *Trail) Stats() Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := Stats{Queued: len(t.queue), Dropped: t.dropped}
	if t.spool != nil {
		s.Spooled = t.spool.waiting()
	}
	return s
}
