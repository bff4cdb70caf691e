package catalogue

import (
	"slices"
	"sync"

	"github.com/busbar-mcp/busbar/libs/bus"
)

// concerns reports whether a tenant may hear of an update.
func concerns(u bus.Updated, tenant string) bool { return u.Tenant == "" || u.Tenant == tenant }

// Audience is who hears of changes. Its methods are asked at each, and must not
// block.
type Audience interface {
	Tenant() string
	// View is what they may know of; nil for everything.
	View() View
}

// Subscription hears of changes. Those that come faster than they are taken
// become one.
type Subscription struct {
	// C has a value when Take has something.
	C        chan struct{}
	live     *Live
	audience Audience
	wants    func(uri string) bool

	mu      sync.Mutex
	changes Change
	uris    []string
}

// maxPending bounds the resources a subscription remembers for a slow taker;
// more are dropped.
const maxPending = 4096

// Subscribe hears of every change of the lists from now on, and of updates of
// the resources that wants reports true for; nil for none, as far as the audience may
// know of them. wants must not block. Close the subscription.
func (l *Live) Subscribe(a Audience, wants func(uri string) bool) *Subscription {
	s := &Subscription{C: make(chan struct{}, 1), live: l, audience: a, wants: wants}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.subscribers[s] = struct{}{}
	return s
}

// Take returns which lists and which resources changed since it was last
// called, each once.
func (s *Subscription) Take() (Change, []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, uris := s.changes, s.uris
	s.changes, s.uris = 0, nil
	return c, uris
}

// Close ends the subscription.
func (s *Subscription) Close() {
	s.live.mu.Lock()
	defer s.live.mu.Unlock()
	delete(s.live.subscribers, s)
}

func (s *Subscription) tell(c Change) {
	s.mu.Lock()
	s.changes |= c
	s.mu.Unlock()
	s.wake()
}

func (s *Subscription) tellUpdated(uri string) {
	s.mu.Lock()
	if len(s.uris) < maxPending && !slices.Contains(s.uris, uri) {
		s.uris = append(s.uris, uri)
	}
	s.mu.Unlock()
	s.wake()
}

func (s *Subscription) wake() {
	select {
	case s.C <- struct{}{}:
	default:
	}
}

// GrantsChanged has the catalogue made again, by what services may do now.
func (l *Live) GrantsChanged() { wake(l.services) }

// ViewsChanged tells all subscribers that what they may see has changed.
func (l *Live) ViewsChanged() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for s := range l.subscribers {
		s.tell(ToolsChanged | PromptsChanged | ResourcesChanged)
	}
}
