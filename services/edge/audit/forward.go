package audit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"google.golang.org/protobuf/proto"

	auditv1 "github.com/busbar-mcp/busbar/gen/busbar/audit/v1"
	"github.com/busbar-mcp/busbar/libs/bus/auditlog"
)

// run sends records until the trail is closed.
func (t *Trail) run() {
	defer close(t.done)
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	var reported uint64
	for {
		select {
		case <-t.wake:
			// While the trail takes nothing, it is tried only at each tick.
			if t.closed() != nil || t.stalled() != nil {
				t.spill()
				continue
			}
			select {
			case <-time.After(linger):
			case <-t.quit: // seen above, next
			}
			t.forward()
		case <-t.look:
			if time.Since(t.looked) >= checkSoonest {
				t.check()
			}
		case <-tick.C:
			t.check()
			t.renew()
			t.counted(false)
			if t.gone() {
				t.spill() // waiting for an answer would only delay the next check
			} else {
				t.forward()
				t.inherit()
			}
			if lost := t.Stats().Dropped; lost > reported {
				t.cfg.Logger.Error("audit events were dropped: the trail cannot be written and no more is kept here", "events", lost-reported, "spool", t.cfg.SpoolDir)
				reported = lost
			}
		case <-t.quit:
			t.counted(true)
			t.forward()
			t.spill()
			if n := t.Stats().Queued; n > 0 {
				t.cfg.Logger.Error("audit events were dropped: the edge ends and the trail cannot be written", "events", n)
			}
			return
		}
	}
}

// Close sends the waiting records, or leaves them in the spool.
func (t *Trail) Close() {
	close(t.quit)
	<-t.done
	if t.spool != nil {
		t.spool.close()
		t.ends.close()
	}
}

// gone reports whether the last check of the trail failed.
func (t *Trail) gone() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.away != nil
}

// storedSince reports whether the trail has taken an event since a time.
func (t *Trail) storedSince(since time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.taken.After(since)
}

// check asks how full the trail is. A stream without a leader does not answer, and a new
// leader has missed the question, so it is asked again soon.
func (t *Trail) check() {
	ctx, cancel := context.WithTimeout(context.Background(), lookTime)
	defer cancel()
	began := time.Now()
	err := t.log.Look(ctx)
	if t.storedSince(began) {
		err = nil // the question is not answered, but events are stored
	}
	full := t.log.Room(auditlog.Begin)
	t.looked = time.Now()
	t.mu.Lock()
	before := errors.Join(t.away, t.full)
	t.away, t.full = cause(err), cause(full)
	if err == nil && t.queued() == 0 && (t.spool == nil || t.spool.waiting()+t.ends.waiting() == 0) {
		t.failing = nil // nothing waits that could show it
	}
	t.mu.Unlock()
	switch {
	case before != nil:
	case full != nil:
		t.cfg.Logger.Error("the audit trail is nearly full; calls with effects are refused", "error", full)
	case err != nil:
		t.cfg.Logger.Error("the audit trail does not answer; "+t.consequence(), "error", err)
	}
}

// counted queues the events that stand for calls that were refused alike.
func (t *Trail) counted(end bool) {
	for _, i := range t.refusals.due(t.cfg.RefusalWindow, end) {
		t.put(auditlog.Read, i)
	}
}

// uses are the kinds of records in the order of sending, with the spool that keeps each
// meanwhile.
func (t *Trail) uses(visit func(auditlog.Use, *spool) bool) {
	_ = visit(auditlog.End, t.ends) && visit(auditlog.Read, t.spool)
}

// forward sends the queues, then the spools. It always sends the ends of calls with
// effects; the other records only while they leave room for them.
func (t *Trail) forward() {
	t.uses(func(use auditlog.Use, s *spool) bool {
		for left := t.log.Left(use); left > 0; left = t.log.Left(use) {
			batch := t.take(use, left)
			if len(batch) == 0 {
				if s != nil {
					t.unload(use, s)
				}
				return true
			}
			if t.append(context.Background(), appendTime, records(batch)...) != nil {
				t.back(use, batch)
				t.spill()
				return false
			}
		}
		t.spill()
		return true
	})
}

func records(batch []item) [][]byte {
	all := make([][]byte, len(batch))
	for n, i := range batch {
		all[n] = i.record
	}
	return all
}

// unload sends the records of a spool, as far as there is room.
func (t *Trail) unload(use auditlog.Use, s *spool) {
	for left := t.log.Left(use); left > 0; left = t.log.Left(use) {
		batch, end, err := s.read(group, left)
		if err != nil {
			t.cfg.Logger.Error("part of the audit spool cannot be read", "dir", t.cfg.SpoolDir, "error", err)
		}
		if len(batch) > 0 && t.appendOf(batch) != nil {
			return
		}
		if s.drop(end) || len(batch) == 0 {
			return
		}
	}
}

// appendOf is append for the events of a spool, which other edges may have made. Each is
// published under the name of the edge that made it.
func (t *Trail) appendOf(batch [][]byte) error {
	for len(batch) > 0 {
		edge, n := edgeOf(batch[0]), 1
		for n < len(batch) && edgeOf(batch[n]) == edge {
			n++
		}
		ctx, cancel := context.WithTimeout(context.Background(), appendTime)
		log, err := t.log.Of(edge)
		if err != nil { // no edge wrote this
			t.cfg.Logger.Error("audit events of a spool name no edge", "events", n, "error", err)
			t.drop()
		} else {
			err = t.appended(log.AppendRecords(ctx, batch[:n]...))
		}
		cancel()
		if err != nil && log != nil {
			return err
		}
		batch = batch[n:]
	}
	return nil
}

func edgeOf(record []byte) string {
	e := &auditv1.AuditEvent{}
	if proto.Unmarshal(record, e) != nil {
		return ""
	}
	return e.Edge
}

// inherit sends the events that dead edges left. If this edge dies before it is done,
// another one sends all of them again.
func (t *Trail) inherit() {
	if t.spool == nil || t.closed() != nil || t.stalled() != nil {
		return
	}
	t.uses(func(use auditlog.Use, own *spool) bool {
		if t.log.Left(use) <= 0 {
			return true // reading records that cannot be sent costs time
		}
		err := own.orphans(func(s *spool) { t.unload(use, s) })
		if text := fmt.Sprint(use, err); err != nil && text != t.orphaned {
			t.orphaned = text
			t.cfg.Logger.Error("the audit spool of an edge that died cannot be taken", "dir", t.cfg.SpoolDir, "error", err)
		}
		return true
	})
}

// renew makes spools again whose files have been lost.
func (t *Trail) renew() {
	if t.spool == nil {
		return
	}
	err := errors.Join(t.ends.renew(), t.spool.renew())
	if text := fmt.Sprint(err); err != nil && text != t.unrenewed {
		t.cfg.Logger.Error("the audit spool is gone and cannot be made again", "dir", t.cfg.SpoolDir, "error", err)
		t.unrenewed = text
	} else if err == nil {
		t.unrenewed = ""
	}
}

// spill moves the queues to the spools, as far as these have room.
func (t *Trail) spill() {
	if t.spool == nil {
		return
	}
	t.uses(func(use auditlog.Use, s *spool) bool {
		for {
			batch := t.take(use, math.MaxInt)
			if len(batch) == 0 {
				return true
			}
			marked := records(batch)
			for i, record := range marked {
				marked[i] = late(record)
			}
			if err := s.add(false, use, marked...); err != nil {
				t.back(use, batch)
				return true
			}
		}
	})
}
