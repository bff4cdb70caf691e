package catalogue

import (
	"context"
	"fmt"
	"math"
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

// Everything is the limit of a page that has all entries of the catalogue.
const Everything = -1

// List returns a page of a list from a cursor on, nil for the first page, as a tenant sees it.
// limit bounds the entries; 0 means a page for clients of MCP, which is bounded in bytes, too.
// The catalogue's entries come first. Then ask gets the entries of each service that lists
// resources or prompts itself, in the order of the services' names; a page that may have such
// entries is never larger than one for MCP. The catalogue's prompts of such a service are left
// out: its own list has them, or the tenant's prompts in their place. A service that cannot
// answer fails the page that would begin with it, and ends the page before. An entry is left out
// if calls for it would reach another service.
func (s *Snapshot) List(ctx context.Context, kind Kind, tenant string, cursor []byte, limit int, ask Ask) (*Page, error) {
	own, listers, size := s.lists[kind], s.listing(kind, tenant), pageBytes
	switch {
	case cursor == nil && limit == 0 && len(listers) == 0:
		own.first.Private = s.Private()
		return &own.first, nil
	case limit == 0, len(listers) > 0 && (limit < 0 || limit > pageItems):
		limit = pageItems
	case len(listers) == 0:
		size = math.MaxInt
	}
	if kind == Prompts && len(listers) > 0 {
		own.items = slices.DeleteFunc(slices.Clone(own.items), func(it item) bool {
			name, _ := s.PromptName(it.name)
			return s.isLister(kind, tenant, s.prompts[name].Service)
		})
	}
	scope := listingScope + own.scope
	at, inService := position(cursor, scope)
	service, at, _ := strings.Cut(at, "\n")
	p := &Page{member: own.member}
	if !inService {
		i, err := own.from(cursor)
		if err != nil {
			return nil, err
		}
		p = own.page(i, limit, size)
	}
	p.Private = len(listers) > 0 || s.Private()
	if p.Next != "" {
		return p, nil
	}
	for _, lister := range listers {
		name := lister.Service
		if name < service {
			continue
		}
		if name > service {
			at = ""
		}
		here := cursorAt(scope, name+"\n"+at)
		if len(p.items) >= limit || p.bytes >= pageBytes {
			p.Next = here
			return p, nil
		}
		raw, err := ask(ctx, name, at, limit-len(p.items))
		var next string
		if err == nil {
			next, err = s.addPage(p, theirs{kind, tenant, name}, at, limit-len(p.items), raw)
		}
		if err != nil && len(p.items) > 0 {
			p.Next = here
			return p, nil
		}
		if err != nil {
			return nil, err
		}
		if next != "" {
			p.Next = cursorAt(scope, name+"\n"+next)
			return p, nil
		}
	}
	return p, nil
}

// theirs is the part of a list that a service has for a tenant.
type theirs struct {
	kind            Kind
	tenant, service string
}

// Listed returns the entry of a name from a page that a service gave for that name alone.
func (s *Snapshot) Listed(kind Kind, tenant, service, name string, raw []byte) ([]byte, error) {
	p := &Page{}
	if _, err := s.addPage(p, theirs{kind, tenant, service}, "", 1, raw); err != nil {
		return nil, err
	}
	for _, it := range p.items { // several if a toolset shows it under several names
		if entry, err := kind.entry(name, it.json); err == nil {
			return entry, nil
		}
	}
	return nil, badPage(kind, service)
}

func badPage(kind Kind, service string) *fault.Error {
	return fault.New(fault.Internal, "service %s gave a page of %s that cannot be read", service, kind.member()).Ran(fault.Yes)
}

// addPage adds the answer of a service about at most limit entries, which is not trusted.
func (s *Snapshot) addPage(p *Page, of theirs, at string, limit int, raw []byte) (next string, err error) {
	var page struct {
		Resources []jsontext.Value `json:"resources"`
		Prompts   []jsontext.Value `json:"prompts"`
		Next      string           `json:"nextCursor,omitzero"`
	}
	bad := badPage(of.kind, of.service)
	if len(raw) > maxListed {
		return "", bad
	}
	if err := json.Unmarshal(raw, &page); err != nil {
		return "", bad.Because(err)
	}
	entries := page.Resources
	if of.kind == Prompts {
		entries = page.Prompts
	}
	// A cursor that does not move would make clients ask forever.
	if len(entries) > limit || len(page.Next) > maxServiceCursor || page.Next != "" && page.Next == at {
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
		if of.kind == Prompts {
			name = about.Name
		}
		if !s.serves(of.kind, of.tenant, of.service, name) {
			continue
		}
		if line, err := of.kind.entry(name, entry); err == nil {
			for _, it := range s.dressed(of.kind, item{name, line}) {
				p.add(it)
			}
		}
	}
	return page.Next, nil
}
