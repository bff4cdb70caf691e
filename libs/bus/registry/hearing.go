package registry

import (
	"sync"
	"time"
)

const (
	// askEvery is how often the bus is asked whether it reaches this process, and
	// answerTime how long one answer may take.
	askEvery   = time.Second
	answerTime = 10 * time.Second
	// deafAfter is how long no answer may have come until the registry is no longer
	// current, and promptly how long one may take for the times of what is heard to mean
	// anything.
	deafAfter = 3 * time.Second
	promptly  = time.Second
	// allBeats is how long it takes until every instance has announced itself.
	allBeats = BeatEvery*6/5 + time.Second
)

// hearing is what a process knows of whether the bus reaches it. Announcements come on the
// same connection as the answers, in order.
type hearing struct {
	mu sync.Mutex
	// asked is when the bus was asked last, zero once it has answered; took is how long
	// the last answer took, and answered when it came.
	asked, answered time.Time
	took            time.Duration
	// heard is the time up to which all that was published has been heard, and since when
	// without a gap; both are zero while there is no answer. read says that the bucket has
	// been read since.
	heard, since time.Time
	read         bool
}

// ask notes that the bus is asked.
func (h *hearing) ask(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked = now
}

// caughtUp notes that all that was published until asked has been heard.
func (h *hearing) caughtUp(asked time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked, h.answered, h.heard = time.Time{}, time.Now(), asked
	h.took = h.answered.Sub(asked)
	if h.since.IsZero() {
		h.since = asked
	}
}

// isDeaf reports whether the bus did not answer last.
func (h *hearing) isDeaf() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.since.IsZero()
}

// deaf notes that the bus did not answer. It reports whether it did before.
func (h *hearing) deaf() (now bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now = !h.since.IsZero()
	h.heard, h.since, h.read = time.Time{}, time.Time{}, false
	return now
}

// listed notes that the bucket has been read from a time on. A reading that began before a
// gap does not show what happened during the gap.
func (h *hearing) listed(began time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.since.IsZero() && !began.Before(h.since) {
		h.read = true
	}
}

// until is the time up to which all that was published has been heard; zero while the bus
// does not answer.
func (h *hearing) until() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.heard
}

// current reports whether every instance on the bus has been heard of.
func (h *hearing) current(now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.since.IsZero() && now.Sub(h.answered) < deafAfter && (h.read || now.Sub(h.since) > allBeats)
}

// prompt reports whether what is heard was published a moment ago.
func (h *hearing) prompt(now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.since.IsZero() && h.took < promptly && (h.asked.IsZero() || now.Sub(h.asked) < promptly)
}
