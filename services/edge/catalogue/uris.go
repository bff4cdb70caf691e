package catalogue

import (
	"cmp"
	"slices"
	"strings"
)

// prefix is what the URIs begin with that a service reads although no entry
// names them.
type prefix struct {
	begins string
	target Target
}

// Resource returns who reads a URI. The file of a skill is read by the skill's
// service. Any other URI is read by the service that came first with a name that
// covers it: a resource of that URI, a template it matches, or what it begins
// with; while that service is away, by nobody. So no newcomer takes URIs by a name
// that says more of them. Only the empty prefix, which covers everything, gives way
// to all other names. Nobody reads a URI of more than MaxURI bytes.
func (s *Snapshot) Resource(uri string) (Target, bool) {
	t, by := s.reader(uri)
	if by.Kind == "" || t.away || !s.shows(Resources, uri, t.Service) {
		return Target{}, false
	}
	return t, true
}

// reader returns who reads a URI, and by which name; the zero Name if nobody does.
func (s *Snapshot) reader(uri string) (first Target, by Name) {
	if len(uri) > MaxURI {
		return Target{}, Name{}
	}
	if t, ok := s.files[uri]; ok {
		return t, Name{SkillName, uri}
	}
	first, found := s.resources[uri]
	if found = found && s.reading(first.Service, uri); found {
		by = Name{ResourceName, uri}
	} else {
		first = Target{}
	}
	since := first.since
	// Of one service the name counts that says most.
	earlier := func(t Target, n Name) {
		if !found || t.Service != first.Service {
			first, by = t, n
		}
		since, found = t.since, true
	}
	for i := range s.templates {
		t := &s.templates[i]
		if found && t.target.since >= since {
			break
		}
		if t.matches(uri) && s.reading(t.target.Service, uri) {
			earlier(t.target, Name{TemplateName, t.uri})
		}
	}
	for _, p := range s.prefixes {
		if found && (p.begins == "" || p.target.since >= since) {
			break
		}
		if strings.HasPrefix(uri, p.begins) && s.reading(p.target.Service, uri) {
			earlier(p.target, Name{PrefixName, p.begins})
		}
	}
	return first, by
}

// settleURIs puts the names of URIs into the order in which Resource asks them,
// and leaves out what is covered by what another service had before.
func (b *builder) settleURIs() {
	b.addAway()
	slices.SortFunc(b.templates, func(x, y template) int {
		return cmp.Or(cmp.Compare(x.target.since, y.target.since), strings.Compare(x.uri, y.uri))
	})
	slices.SortFunc(b.prefixes, func(x, y prefix) int {
		if x.begins == "" || y.begins == "" {
			return len(y.begins) - len(x.begins)
		}
		return cmp.Or(cmp.Compare(x.target.since, y.target.since), len(y.begins)-len(x.begins), strings.Compare(x.begins, y.begins))
	})
	all := b.prefixes
	b.prefixes = slices.DeleteFunc(slices.Clone(all), func(p prefix) bool {
		return !p.target.away && b.covered(all, Name{PrefixName, p.begins}, p.begins, p.target)
	})
	gone := map[string]bool{}
	b.templates = slices.DeleteFunc(b.templates, func(t template) bool {
		if !t.target.away && b.covered(all, Name{TemplateName, t.uri}, t.begins, t.target) {
			gone[t.uri] = true
		}
		return gone[t.uri]
	})
	b.items[Templates] = slices.DeleteFunc(b.items[Templates], func(i item) bool { return gone[i.name] })
	var others []string
	b.items[Resources] = slices.DeleteFunc(b.items[Resources], func(i item) bool {
		target, by := b.reader(i.name)
		service := b.resources[i.name].Service
		if target.Service == service {
			return false
		}
		b.conflict(Conflict{Name: Name{ResourceName, i.name}, Service: service, Owner: target.Service, Reads: by})
		others = append(others, i.name)
		return true
	})
	for _, uri := range others {
		delete(b.resources, uri)
	}
}

// maxPatterns bounds the templates, and the prefixes, of one service: to find out
// who reads a URI takes time with their number.
//
//limit:service templates, and prefixes of URIs, of one service | further ones are left out
const maxPatterns = 256

// template is newTemplate, which is slow, with what earlier builds have made.
func (b *builder) template(uri string, target Target) (t template, err error) {
	t, ok := b.knownTemplates[uri]
	if !ok {
		if t, err = newTemplate(uri, target); err != nil {
			return t, err
		}
	}
	t.target = target
	b.usedTemplates[uri] = t
	return t, nil
}

// addAway adds the names of URIs whose services are away, so that these find their
// URIs as they left them.
func (b *builder) addAway() {
	have := map[string]int{}
	for n, service := range b.owners.away {
		_, since := b.owners.owner(n)
		target := Target{Service: service, since: since, away: true}
		if n.Kind == ResourceName {
			b.resources[n.Name] = target
			continue
		}
		key := string(n.Kind) + " " + service
		if have[key]++; have[key] > maxPatterns {
			continue // it had as many at different times
		}
		switch n.Kind {
		case PrefixName:
			b.prefixes = append(b.prefixes, prefix{n.Name, target})
		case TemplateName:
			if t, err := b.template(n.Name, target); err == nil {
				b.templates = append(b.templates, t)
			}
		}
	}
}

// covered reports whether another service reads all URIs of a name, which begin
// so, by a prefix that it had before. If it does, that is noted.
func (b *builder) covered(all []prefix, n Name, begins string, target Target) bool {
	for _, p := range all {
		if p.begins == "" || p.target.since >= target.since {
			return false
		}
		if ok, _ := b.owners.may(p.target.Service, Name{PrefixName, begins}); ok && strings.HasPrefix(begins, p.begins) {
			if p.target.Service == target.Service {
				return false
			}
			b.conflict(Conflict{Name: n, Service: target.Service, Owner: p.target.Service, Reads: Name{PrefixName, p.begins}})
			return true
		}
	}
	return false
}
