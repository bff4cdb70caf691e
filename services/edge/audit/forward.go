package audit

import (
	"context"
	"fmt"
	"time"
)

// run sends what was put until the trail is closed.
func (t *Trail) run() {
	defer close(t.done)
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	var reported uint64
	for {
		select {
		case <-t.wake:
			// While the trail takes nothing, it is tried no more often than it ticks.
			if t.unready() != nil {
				t.spill()
				continue
			}
			select {
			case <-time.After(linger):
			case <-t.quit: // seen above, next
			}
			t.forward()
		case <-tick.C:
			t.check()
			t.forward()
			t.inherit()
			if lost := t.Stats().Dropped; lost > reported {
				t.cfg.Logger.Error("audit events were dropped: the trail cannot be written and no more is kept here", "events", lost-reported, "spool", t.cfg.SpoolDir)
				reported = lost
			}
		case <-t.quit:
			t.forward()
			t.spill()
			if n := t.Stats().Queued; n > 0 {
				t.cfg.Logger.Error("audit events were dropped: the edge ends and the trail cannot be written", "events", n)
			}
			return
		}
	}
}

// Close sends what waits, or leaves it in the spool.
func (t *Trail) Close() {
	close(t.quit)
	<-t.done
	if t.spool != nil {
		t.spool.close()
	}
}

// check asks whether the trail has room.
func (t *Trail) check() {
	ctx, cancel := context.WithTimeout(context.Background(), appendTime)
	defer cancel()
	err := t.log.Room(ctx)
	t.mu.Lock()
	before := t.full
	t.full = err
	if err == nil && len(t.queue) == 0 && (t.spool == nil || t.spool.waiting() == 0) {
		t.failing = nil // nothing waits that could show it
	}
	t.mu.Unlock()
	if err != nil && before == nil {
		t.cfg.Logger.Error("the audit trail takes no more; calls with effects are refused", "error", err)
	}
}

// forward sends the queue, then the spool.
func (t *Trail) forward() {
	for {
		batch := t.take(group)
		if len(batch) == 0 {
			break
		}
		if t.append(context.Background(), batch...) != nil {
			t.keep(batch)
			t.spill()
			return
		}
	}
	if t.spool != nil {
		t.unload(t.spool)
	}
}

// unload sends what a spool has.
func (t *Trail) unload(s *spool) {
	for {
		batch, end, err := s.read(group)
		if err != nil {
			t.cfg.Logger.Error("part of the audit spool cannot be read", "dir", t.cfg.SpoolDir, "error", err)
		}
		if len(batch) > 0 && t.append(context.Background(), batch...) != nil {
			return
		}
		if s.drop(end) || len(batch) == 0 {
			return
		}
	}
}

// inherit sends what edges that died have left. Should this one die too before
// it is done, all of it is sent again.
func (t *Trail) inherit() {
	if t.spool == nil || t.unready() != nil {
		return
	}
	err := t.spool.orphans(t.unload)
	if text := fmt.Sprint(err); text != t.orphaned {
		t.orphaned = text
		if err != nil {
			t.cfg.Logger.Error("the audit spool of an edge that died cannot be taken", "dir", t.cfg.SpoolDir, "error", err)
		}
	}
}

// keep puts records back that were not taken.
func (t *Trail) keep(batch [][]byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queue = append(batch[:len(batch):len(batch)], t.queue...)
	for _, record := range batch {
		t.bytes += sizeOf(record)
	}
}

// spill moves the queue to the spool, as far as that has room.
func (t *Trail) spill() {
	for t.spool != nil {
		batch := t.take(group)
		if len(batch) == 0 {
			return
		}
		marked := make([][]byte, len(batch))
		for i, record := range batch {
			marked[i] = late(record)
		}
		if err := t.spool.add(false, marked...); err != nil {
			t.keep(batch)
			return
		}
	}
}
