package probe

import "sync"

// Other is the name of all for which there is no room among Names.
const Other = "other"

// Names bounds the values of a label that others choose: there are at most so many of
// them for as long as the process lives, and all later ones are Other. Each value is a
// series, which whoever reads the figures keeps for months.
type Names struct {
	most int

	mu    sync.RWMutex
	known map[string]struct{}
}

// NewNames makes room for that many names.
func NewNames(most int) *Names { return &Names{most: most, known: map[string]struct{}{}} }

// Of is name, or Other. The empty name needs no room.
func (n *Names) Of(name string) string {
	if name == "" {
		return name
	}
	n.mu.RLock()
	_, known := n.known[name]
	n.mu.RUnlock()
	if known {
		return name
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, known := n.known[name]; known {
		return name
	}
	if len(n.known) >= n.most {
		return Other
	}
	n.known[name] = struct{}{}
	return name
}
