package door

import "sync"

// That many messages, and bytes of them unless it is a single one, wait for a
// slow client. Beyond it those of Notify are dropped, and the rest waits.
const (
	maxQueued      = 256
	maxQueuedBytes = 256 << 10
)

// queue is what waits for one client to read it.
type queue struct {
	// more has a value when there is something to write.
	more chan struct{}

	mu      sync.Mutex
	queued  [][]byte
	bytes   int
	waiting int           // those in Send
	room    chan struct{} // closed when there is room again, and at the end
	ended   bool          // nothing is queued any more
}

func newQueue() *queue { return &queue{more: make(chan struct{}, 1), room: make(chan struct{})} }

// Send sends a message. It waits for a slow client, though not for ever, and
// reports false when the client is gone.
func (q *queue) Send(message []byte) bool {
	for {
		q.mu.Lock()
		if q.ended || q.put(message) {
			defer q.mu.Unlock()
			return !q.ended
		}
		q.waiting++
		room := q.room
		q.mu.Unlock()
		<-room
	}
}

// Notify sends a message, or drops what the client is too slow for.
func (q *queue) Notify(message []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.ended && q.waiting == 0 {
		q.put(message)
	}
}

// put queues a message if there is room.
func (q *queue) put(message []byte) bool {
	if len(q.queued) >= maxQueued || len(q.queued) > 0 && q.bytes+len(message) > maxQueuedBytes {
		return false
	}
	q.queued, q.bytes = append(q.queued, message), q.bytes+len(message)
	q.wake()
	return true
}

func (q *queue) wake() {
	select {
	case q.more <- struct{}{}:
	default:
	}
}

// take empties the queue and lets those in who wait. It reports whether the
// stream has ended.
func (q *queue) take() (queued [][]byte, ended bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	queued, q.queued, q.bytes = q.queued, nil, 0
	close(q.room)
	q.room, q.waiting = make(chan struct{}), 0
	return queued, q.ended
}

// End ends the stream after what is queued.
func (q *queue) End() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = true
	q.wake()
}
