package door

import "sync"

// The messages that wait for a slow client, and their bytes unless it is a single
// message. Beyond that, messages of Notify are dropped, and all others wait.
const (
	//limit:connection messages that wait for the client of an SSE stream or WebSocket | notifications of calls are dropped
	maxQueued      = 256
	maxQueuedBytes = 256 << 10
	// maxUnheld is the largest message that Send leaves in the queue.
	maxUnheld = 32 << 10
)

// queue holds the messages that wait for one client to read them. Its writer goroutine
// exists only while a message waits, because most clients get few messages.
type queue struct {
	// write writes messages, with last set for the last ones of all. It reports false if
	// the client is gone.
	write func(messages [][]byte, last bool) bool
	// done is closed when nothing more will be written.
	done chan struct{}

	mu      sync.Mutex
	queued  [][]byte
	bytes   int
	waiting int           // callers in Send
	taken   int           // how often the queue was emptied
	written int           // how many of these batches are written
	change  chan struct{} // closed at the next change of the queue; nil if nobody waits
	writing bool          // the writer goroutine runs
	ended   bool          // nothing more may be queued
}

func newQueue(write func(messages [][]byte, last bool) bool) *queue {
	return &queue{write: write, done: make(chan struct{})}
}

// Send sends a message. It waits for a slow client, though not forever, and reports false
// if the client is gone. A large message is written when Send returns: the queue is
// small, so the sender of more than fits has to hold it.
func (q *queue) Send(message []byte) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.ended && !q.put(message) {
		q.waiting++
		q.wait()
	}
	if q.ended {
		return false
	}
	for at := q.taken + 1; len(message) > maxUnheld && q.written < at; {
		q.wait()
	}
	return true
}

// wait waits, unlocked, until there is room or a batch is written.
func (q *queue) wait() {
	if q.change == nil {
		q.change = make(chan struct{})
	}
	change := q.change
	q.mu.Unlock()
	<-change
	q.mu.Lock()
}

// Notify sends a message, or drops it if the client is too slow.
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
	if !q.writing {
		q.writing = true
		go q.run()
	}
}

// run writes until no message waits.
func (q *queue) run() {
	for {
		messages, last := q.take()
		switch {
		case messages == nil && !last:
			return
		case !q.write(messages, last), last:
			q.leave()
			return
		}
		q.wrote()
	}
}

// take empties the queue and wakes the senders that wait for room. It reports whether the
// stream has ended. A writer that receives neither messages nor an end stops.
func (q *queue) take() (messages [][]byte, last bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.queued) == 0 && !q.ended {
		q.writing = false
		return nil, false
	}
	messages, q.queued, q.bytes = q.queued, nil, 0
	q.taken, q.waiting = q.taken+1, 0
	q.changed()
	return messages, q.ended
}

// wrote notes that all taken messages are written.
func (q *queue) wrote() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.written = q.taken
	q.changed()
}

// leave is for a writer that stops because the client is gone. It wakes everybody who
// waits.
func (q *queue) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended, q.queued, q.bytes = true, nil, 0
	q.written = q.taken + 1
	q.changed()
	close(q.done)
}

func (q *queue) changed() {
	if q.change != nil {
		close(q.change)
		q.change = nil
	}
}

// End ends the stream after the queued messages.
func (q *queue) End() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.ended {
		q.ended = true
		q.wake()
	}
}
