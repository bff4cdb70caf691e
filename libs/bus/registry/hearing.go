package registry

import (
	"sync"
	"time"
)

const (
	// askEvery is the interval of checks whether the bus reaches this process, and answerTime
	// the time limit of an answer.
	askEvery   = time.Second
	answerTime = 10 * time.Second
	// deafAfter is the time without an answer after which the registry is no longer current.
	// promptly is the longest delay of an answer with which the times of messages are
	// meaningful.
	deafAfter = 3 * time.Second
	promptly  = time.Second
	// allBeats is the time in which every instance has announced itself.
	allBeats = BeatEvery*6/5 + time.Second
)

// hearing records whether the bus reaches this process. Announcements arrive on the same connection as the
// answers, in order.
type hearing struct {
	mu sync.Mutex
	// asked is the time of an unanswered question, zero after the answer; took is the
	// delay of the last answer, and answered its time.
	asked, answered time.Time
	took            time.Duration
	// heard is the time up to which every message has been received, and since the start of
	// that period without a gap; both are zero while there is no answer. read is set if the bucket has
	// been read since.
	heard, since time.Time
	read         bool
}

// ask records a question to the bus.
func (h *hearing) ask(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked = now
}

// caughtUp records that everything published until asked has been received.
func (h *hearing) caughtUp(asked time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked, h.answered, h.heard = time.Time{}, time.Now(), asked
	h.took = h.answered.Sub(asked)
	if h.since.IsZero() {
		h.since = asked
	}
}

// isDeaf reports whether the last question had no answer.
func (h *hearing) isDeaf() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.since.IsZero()
}

// deaf records that the bus did not answer. It reports whether it answered before.
func (h *hearing) deaf() (now bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now = !h.since.IsZero()
	h.heard, h.since, h.read = time.Time{}, time.Time{}, false
	return now
}

// listed records that the bucket has been read from a time on. A read that began before a gap does not
// show what happened during the gap.
func (h *hearing) listed(began time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.since.IsZero() && !began.Before(h.since) {
		h.read = true
	}
}

// until returns the time up to which everything published has been received; zero while the bus does not
// answer.
func (h *hearing) until() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.heard
}

// current reports whether every instance on the bus is known.
func (h *hearing) current(now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.since.IsZero() && now.Sub(h.answered) < deafAfter && (h.read || now.Sub(h.since) > allBeats)
}

// prompt reports whether messages arrive without delay.
func (h *hearing) prompt(now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.since.IsZero() && h.took < promptly && (h.asked.IsZero() || now.Sub(h.asked) < promptly)
}
