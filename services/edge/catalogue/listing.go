package catalogue

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// addListing adds a service's declarations about resources that are not in its catalogue.
func (b *builder) addListing(service string, c *busv1.Catalogue, at func(Name, string) Target) {
	if c.GetListsResources() {
		b.listers = append(b.listers, at(Name{Kind: listerName}, ""))
	}
	for i, begins := range c.GetResourcePrefixes() {
		if i >= maxPatterns {
			b.leaveOut(service, Name{PrefixName, begins}, fmt.Errorf("a service has at most %d prefixes", maxPatterns))
			break
		}
		if n := (Name{PrefixName, begins}); !b.has(service, begins) && b.mine(service, n) {
			b.prefixes = append(b.prefixes, prefix{begins, at(n, "")})
		}
	}
	for _, begins := range b.owners.prefixes[service] {
		wider := func(p prefix) bool { return p.target.Service == service && strings.HasPrefix(begins, p.begins) }
		if i := slices.IndexFunc(b.prefixes, wider); i >= 0 && !b.has(service, begins) {
			target := b.prefixes[i].target
			target.since = 0
			b.prefixes = append(b.prefixes, prefix{begins, target})
		}
	}
}

// has reports whether a service has a prefix already.
func (b *builder) has(service, begins string) bool {
	return slices.ContainsFunc(b.prefixes, func(p prefix) bool { return p.target.Service == service && p.begins == begins })
}

// Lists reports whether some service itself lists entries of a kind for a tenant, which the
// snapshot does not have.
func (s *Snapshot) Lists(kind Kind, tenant string) bool { return len(s.listing(kind, tenant)) > 0 }

// listing are these services, sorted by name.
func (s *Snapshot) listing(kind Kind, tenant string) []Target {
	switch {
	case kind == Resources:
		return s.listers
	case kind == Prompts && s.prompting(tenant):
		return []Target{s.prompter}
	}
	return nil
}

// Lister returns the service of a name, if it can be asked for entries of a kind that are not in
// the snapshot.
func (s *Snapshot) Lister(kind Kind, service string) (Target, bool) {
	all := s.listers
	if kind == Prompts {
		all = []Target{s.prompter}
	}
	i := slices.IndexFunc(all, func(t Target) bool { return t.Service == service })
	if i < 0 || service == "" {
		return Target{}, false
	}
	return all[i], true
}

// isLister reports whether lists of a tenant get the entries of a service from that service.
func (s *Snapshot) isLister(kind Kind, tenant, service string) bool {
	return slices.ContainsFunc(s.listing(kind, tenant), func(t Target) bool { return t.Service == service })
}

// serves reports whether calls for an entry that a service lists reach that service.
func (s *Snapshot) serves(kind Kind, tenant, service, name string) bool {
	if kind == Resources {
		return s.reads(service, name)
	}
	target, ok := s.prompt(name)
	return ok && target.Service == service && len(name) <= MaxURI
}

// reads reports whether a service is the reader of a URI.
func (s *Snapshot) reads(service, uri string) bool {
	target, ok := s.Resource(uri)
	return ok && target.Service == service
}

// Bounds of the answer of a service for one page.
const (
	maxListed        = 1 << 20
	maxServiceCursor = 8 << 10
)

// listingScope is the beginning of the scope of cursors within the list of a service.
const listingScope = "listing "

// Ask gets a page of at most limit entries from a service that lists them.
type Ask func(ctx context.Context, service, cursor string, limit int) ([]byte, error)

// List returns resources or prompts from a cursor on, nil for the first page, including those
// that services list for a tenant. First come the catalogue's entries, then the entries of each
// such service, in the order of their names. For a service that lists prompts, the catalogue's
// prompts are left out: the service's own list has them, or the tenant's prompts in their place.
// limit bounds the entries; 0 means a full page. next is empty at the end. A service that cannot
// answer fails the page that would begin with it, and ends the page before. An entry is left out
// if calls for it would reach another service. Don't change the entries.
func (s *Snapshot) List(ctx context.Context, kind Kind, tenant string, cursor []byte, limit int, ask Ask) (entries [][]byte, next string, err error) {
	if limit <= 0 || limit > pageItems {
		limit = pageItems
	}
	scope := listingScope + s.lists[kind].scope
	p := listPage{kind: kind, tenant: tenant, limit: limit}
	at, inService := position(cursor, scope)
	service, at, _ := strings.Cut(at, "\n")
	if !inService {
		own := &s.lists[kind]
		i, err := own.from(cursor)
		if err != nil {
			return nil, "", err
		}
		for ; i < len(own.items); i++ {
			if kind == Prompts {
				if name, _ := s.PromptName(own.items[i].name); s.isLister(kind, tenant, s.prompts[name].Service) {
					continue
				}
			}
			if p.full() {
				return p.entries, own.cursor(own.items[i-1].name), nil
			}
			p.add(own.items[i].json)
		}
	}
	for _, lister := range s.listing(kind, tenant) {
		name := lister.Service
		if name < service {
			continue
		}
		if name > service {
			at = ""
		}
		here := cursorAt(scope, name+"\n"+at)
		if p.full() {
			return p.entries, here, nil
		}
		raw, err := ask(ctx, name, at, limit-len(p.entries))
		var next string
		if err == nil {
			next, err = s.addPage(&p, name, at, raw)
		}
		if err != nil && len(p.entries) > 0 {
			return p.entries, here, nil
		}
		if err != nil {
			return nil, "", err
		}
		if next != "" {
			return p.entries, cursorAt(scope, name+"\n"+next), nil
		}
	}
	return p.entries, "", nil
}

// Listed returns the entry of a name from a page that a service gave for that name alone.
func (s *Snapshot) Listed(kind Kind, tenant, service, name string, raw []byte) ([]byte, error) {
	p := listPage{kind: kind, tenant: tenant, limit: 1}
	if _, err := s.addPage(&p, service, "", raw); err != nil {
		return nil, err
	}
	for _, entry := range p.entries { // several if a toolset shows it under several names
		if entry, err := kind.entry(name, entry); err == nil {
			return entry, nil
		}
	}
	return nil, badPage(kind, service)
}

func badPage(kind Kind, service string) *fault.Error {
	return fault.New(fault.Internal, "service %s gave a page of %s that cannot be read", service, kind.member()).Ran(fault.Yes)
}

// addPage adds the answer of a service, which is not trusted.
func (s *Snapshot) addPage(p *listPage, service, at string, raw []byte) (next string, err error) {
	var page struct {
		Resources []jsontext.Value `json:"resources"`
		Prompts   []jsontext.Value `json:"prompts"`
		Next      string           `json:"nextCursor,omitzero"`
	}
	bad := badPage(p.kind, service)
	if len(raw) > maxListed {
		return "", bad
	}
	if err := json.Unmarshal(raw, &page); err != nil {
		return "", bad.Because(err)
	}
	entries := page.Resources
	if p.kind == Prompts {
		entries = page.Prompts
	}
	// A cursor that does not move would make clients ask forever.
	if len(entries) > p.limit || len(page.Next) > maxServiceCursor || page.Next != "" && page.Next == at {
		return "", bad
	}
	for _, entry := range entries {
		var about struct {
			URI  string `json:"uri"`
			Name string `json:"name"`
		}
		if json.Unmarshal(entry, &about) != nil {
			continue
		}
		name := about.URI
		if p.kind == Prompts {
			name = about.Name
		}
		if !s.serves(p.kind, p.tenant, service, name) {
			continue
		}
		if line, err := p.kind.entry(name, entry); err == nil {
			for _, it := range s.dressed(p.kind, item{name, line}) {
				p.add(it.json)
			}
		}
	}
	return page.Next, nil
}

// listPage is a page in the making.
type listPage struct {
	kind    Kind
	tenant  string
	limit   int
	entries [][]byte
	bytes   int
}

func (p *listPage) full() bool { return len(p.entries) >= p.limit || p.bytes >= pageBytes }

func (p *listPage) add(entry []byte) {
	p.entries = append(p.entries, entry)
	p.bytes += len(entry)
}
