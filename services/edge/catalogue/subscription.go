package catalogue

import (
	"slices"
	"sync"

	"github.com/busbar-mcp/busbar/libs/bus"
)

// concerns reports whether a tenant may hear of an update.
func concerns(u bus.Updated, tenant string) bool { return u.Tenant == "" || u.Tenant == tenant }

// Audience is the party that hears of changes. Its methods are called at each change, and must
// not block.
type Audience interface {
	Tenant() string
	// View is the part of the catalogue that the audience may know of; nil for everything.
	View() View
}

// Subscription hears of changes. Changes that come faster than they are taken are merged.
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

// maxPending bounds the resources that a subscription remembers for a slow reader; more are
// dropped.
const maxPending = 4096

// Subscribe reports every change of the lists from now on, and updates of the resources for which
// wants reports true; nil means no resources. It reports only what the audience may know of.
// wants must not block. Close the subscription.
func (l *Live) Subscribe(a Audience, wants func(uri string) bool) *Subscription {
	s := &Subscription{C: make(chan struct{}, 1), live: l, audience: a, wants: wants}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.subscribers[s] = struct{}{}
	return s
}

// Take returns which lists and which resources changed since it was last called, each once.
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

// GrantsChanged makes the catalogue be built again, with what services may do now.
func (l *Live) GrantsChanged() { wake(l.services) }

// ViewsChanged tells all subscribers that their view has changed.
func (l *Live) ViewsChanged() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for s := range l.subscribers {
		s.tell(ToolsChanged | PromptsChanged | ResourcesChanged)
	}
}
