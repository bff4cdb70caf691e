package gateway

import (
	"context"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/libs/bus/storage"
)

// maxKeyMemory bounds the keys that an edge remembers itself.
const maxKeyMemory = 50_000

// keyMemory are the keys whose calls this edge permitted, so that it does not
// make them again when the bucket is lost: without their results.
type keyMemory struct {
	mu    sync.Mutex
	calls map[string]remembered
	// order has the keys by age, some of them forgotten.
	order []string
}

type remembered struct {
	record outcome
	at     time.Time
}

// keep remembers a key.
func (m *keyMemory) keep(at string, r *outcome, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.calls == nil {
		m.calls = map[string]remembered{}
	}
	if _, known := m.calls[at]; !known {
		m.order = append(m.order, at)
	}
	small := *r
	if small.Result != nil {
		small.Result, small.Meta, small.Ran = nil, nil, true
	}
	m.calls[at] = remembered{small, now}
	for len(m.order) > maxKeyMemory {
		delete(m.calls, m.order[0])
		m.order = m.order[1:]
	}
}

// forget forgets a key, unless it is another call's by now.
func (m *keyMemory) forget(at, call string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.calls[at].record.Call == call {
		delete(m.calls, at)
	}
}

// recall returns what this edge remembers of a key that the bucket does not
// have, and puts it there again; nil for nothing.
func (o *Outcomes) recall(ctx context.Context, at string) (*outcome, uint64, error) {
	o.memory.mu.Lock()
	was, known := o.memory.calls[at]
	o.memory.mu.Unlock()
	if !known || o.now().Sub(was.at) > storage.OutcomeTTL {
		return nil, 0, nil
	}
	raw, err := json.Marshal(&was.record)
	if err != nil {
		return nil, 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	if _, err := o.bucket.Create(ctx, at, raw); err != nil {
		return nil, 0, err
	}
	return o.look(ctx, at) // another edge may have made it
}
