package catalogue

import (
	"slices"
	"sync"
)

// View is the part of the catalogue that a caller may know of.
type View interface {
	// Key is the same for all views that show the same, and different for all others.
	Key() string
	// Sees reports whether a name is shown. kind is one of Tools, Prompts, Resources, Templates
	// and Skills; the name of a skill is the URI of its SKILL.md. service is its owner.
	Sees(kind Kind, name, service string) bool
}

// maxViews bounds the views of one snapshot that are kept.
const maxViews = 256

// views are a snapshot in other views, by the keys of these.
type views struct {
	mu  sync.Mutex
	all map[string]*Snapshot
}

// For returns the snapshot in a view: without the names that the view does not show, in lists and
// by name. nil sees everything.
func (s *Snapshot) For(view View) *Snapshot {
	if view == nil {
		return s
	}
	key := view.Key()
	s.views.mu.Lock()
	v := s.views.all[key]
	s.views.mu.Unlock()
	if v != nil {
		return v
	}
	v = s.seen(view)
	s.views.mu.Lock()
	defer s.views.mu.Unlock()
	if s.views.all == nil || len(s.views.all) >= maxViews {
		s.views.all = map[string]*Snapshot{}
	}
	s.views.all[key] = v
	return v
}

// seen makes the snapshot in a view.
func (s *Snapshot) seen(view View) *Snapshot {
	v := *s
	v.view = view
	if t, ok := view.(*through); ok {
		v.set = t.set
	}
	services := map[string]bool{}
	for k := range v.lists {
		shown := func(it item) bool {
			owner := s.owner(Kind(k), it.name)
			if !v.shows(Kind(k), it.name, owner) {
				return false
			}
			services[owner] = true
			return true
		}
		if v.set == nil {
			v.lists[k] = s.lists[k].only(shown)
			continue
		}
		var items []item
		for _, it := range s.lists[k].items {
			if shown(it) {
				items = append(items, v.dressed(Kind(k), it)...)
			}
		}
		// Cursors of a set are valid for no other list.
		v.lists[k] = newList(s.lists[k].member, v.set.Name()+" "+s.lists[k].scope, items)
	}
	v.digest = digest(&v.lists)
	v.instruct(services)
	return &v
}

// only is the list without the items for which keep reports false.
func (l *list) only(keep func(item) bool) list {
	var kept []item
	for _, it := range l.items {
		if keep(it) {
			kept = append(kept, it)
		}
	}
	return ready(l.member, l.scope, kept)
}

// owner is the service that has an entry of a list.
func (s *Snapshot) owner(kind Kind, name string) string {
	switch kind {
	case Tools, LegacyTools:
		return s.tools[name].Service
	case Prompts:
		return s.prompts[name].Service
	case Resources:
		return s.resources[name].Service
	case Skills:
		return s.files[name].Service
	}
	if i := slices.IndexFunc(s.templates, func(t template) bool { return t.uri == name }); i >= 0 {
		return s.templates[i].target.Service
	}
	return ""
}

// shows reports whether the snapshot shows a name.
func (s *Snapshot) shows(kind Kind, name string, service string) bool {
	if s.view == nil {
		return true
	}
	if kind == LegacyTools {
		kind = Tools
	}
	return s.view.Sees(kind, name, service)
}
