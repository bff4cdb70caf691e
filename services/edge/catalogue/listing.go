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

// addListing adds what a service says of resources that its catalogue does not
// hold.
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

// Lists reports whether some service lists resources that are not here.
func (s *Snapshot) Lists() bool { return len(s.listers) > 0 }

// Lister returns the service of a name that lists resources.
func (s *Snapshot) Lister(service string) (Target, bool) {
	i := slices.IndexFunc(s.listers, func(t Target) bool { return t.Service == service })
	if i < 0 {
		return Target{}, false
	}
	return s.listers[i], true
}

func (s *Snapshot) isLister(service string) bool { _, ok := s.Lister(service); return ok }

// reads reports whether a service is the one that reads a URI.
func (s *Snapshot) reads(service, uri string) bool {
	target, ok := s.Resource(uri)
	return ok && target.Service == service
}

// Bounds of what a service gives as one page.
const (
	maxListed        = 1 << 20
	maxServiceCursor = 8 << 10
)

// listingScope is that of cursors within the list of a service.
const listingScope = "listing"

// Ask gets a page of at most limit resources from a service that lists them.
type Ask func(ctx context.Context, service, cursor string, limit int) ([]byte, error)

// ListResources returns resources from a cursor on, nil for the first, with
// those that services list themselves: first the catalogue's, then each such
// service's, by the name of the service. limit bounds the entries; 0 is as many
// as a page has. next is empty at the end. A service that cannot answer fails
// the page that would begin with it, and ends the page before. An entry that
// another service would be asked to read is left out. Don't change the entries.
func (s *Snapshot) ListResources(ctx context.Context, cursor []byte, limit int, ask Ask) (entries [][]byte, next string, err error) {
	if limit <= 0 || limit > pageItems {
		limit = pageItems
	}
	p := resourcePage{limit: limit}
	at, inService := position(cursor, listingScope)
	service, at, _ := strings.Cut(at, "\n")
	if !inService {
		own := &s.lists[Resources]
		i, err := own.from(cursor)
		if err != nil {
			return nil, "", err
		}
		for ; i < len(own.items); i++ {
			if p.full() {
				return p.entries, own.cursor(own.items[i-1].name), nil
			}
			p.add(own.items[i].json)
		}
	}
	for _, lister := range s.listers {
		name := lister.Service
		if name < service {
			continue
		}
		if name > service {
			at = ""
		}
		here := cursorAt(listingScope, name+"\n"+at)
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
			return p.entries, cursorAt(listingScope, name+"\n"+next), nil
		}
	}
	return p.entries, "", nil
}

// addPage adds what a service gave, which is not to be trusted.
func (s *Snapshot) addPage(p *resourcePage, service, at string, raw []byte) (next string, err error) {
	var page struct {
		Resources []jsontext.Value `json:"resources"`
		Next      string           `json:"nextCursor,omitzero"`
	}
	bad := fault.New(fault.Internal, "service %s gave a page of resources that cannot be read", service).Ran(fault.Yes)
	if len(raw) > maxListed {
		return "", bad
	}
	if err := json.Unmarshal(raw, &page); err != nil {
		return "", bad.Because(err)
	}
	// One that does not move would have clients ask forever.
	if len(page.Resources) > p.limit || len(page.Next) > maxServiceCursor || page.Next != "" && page.Next == at {
		return "", bad
	}
	for _, entry := range page.Resources {
		var about struct {
			URI string `json:"uri"`
		}
		if json.Unmarshal(entry, &about) != nil || !s.reads(service, about.URI) {
			continue
		}
		if line, err := Resources.entry(about.URI, entry); err == nil {
			p.add(line)
		}
	}
	return page.Next, nil
}

// resourcePage is a page in the making.
type resourcePage struct {
	limit   int
	entries [][]byte
	bytes   int
}

func (p *resourcePage) full() bool { return len(p.entries) >= p.limit || p.bytes >= pageBytes }

func (p *resourcePage) add(entry []byte) {
	p.entries = append(p.entries, entry)
	p.bytes += len(entry)
}
