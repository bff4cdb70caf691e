package registry

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
)

// maxReleases is how many catalogues of one service count at once. Instances with other catalogues are
// called only for what all instances have in common.
//
//limit:service catalogues of one service that count at once | older ones are ignored
const maxReleases = 4

// settle makes the list of services from the roster, and reports whether it differs. A service whose new
// catalogue cannot be read within the given time keeps the old one.
func (v *view) settle(ctx context.Context, within time.Duration) bool {
	all := v.registry.roster.announcements()
	known := releases(all)
	v.registry.conn.SetInstances(all)
	v.unread = !v.registry.catalogues.settle(ctx, known, within)
	before := v.registry.Services()
	var now []Service
	for _, name := range slices.Sorted(maps.Keys(known)) {
		s := Service{Name: name, Instances: names(all[name])}
		for i, r := range known[name][:min(len(known[name]), maxReleases)] {
			if r.Catalogue = v.registry.catalogues.get(name, r.Digest); r.Catalogue != nil {
				if i == 0 {
					s.Version, s.Digest, s.Catalogue = r.Version, r.Digest, r.Catalogue
				}
				s.Releases = append(s.Releases, r)
			} else if i == 0 {
				byName := func(s Service, name string) int { return strings.Compare(s.Name, name) }
				if at, ok := slices.BinarySearchFunc(before, name, byName); ok {
					s = before[at]
				}
				break
			}
		}
		if s.Catalogue != nil {
			now = append(now, s)
		}
	}
	same := slices.EqualFunc(before, now, func(a, b Service) bool {
		return a.Name == b.Name && slices.Equal(a.Instances, b.Instances) && slices.EqualFunc(a.Releases, b.Releases, func(a, b Release) bool {
			return a.Version == b.Version && a.Digest == b.Digest && slices.Equal(a.Instances, b.Instances)
		})
	})
	v.registry.mu.Lock()
	v.registry.services = now
	v.registry.mu.Unlock()
	return !same
}

// releases returns the announced catalogues by service, without their content. Every edge computes the
// same order: first the latest changed catalogue of the version that started last, then the others by
// their time of change.
func releases(services map[string][]*busv1.Announcement) map[string][]Release {
	last := map[string]*busv1.Announcement{}
	for service, anns := range services {
		for _, ann := range anns {
			if old := last[service]; old == nil || later(ann, old, (*busv1.Announcement).GetStartedUnixNano) {
				last[service] = ann
			}
		}
	}
	// youngest is the instance that represents a catalogue: one of the current version if there is one,
	// and of those the one that got the catalogue last.
	youngest := map[string]*busv1.Announcement{}
	instances := map[string][]string{}
	versions := map[string][]string{}
	before := func(a, b *busv1.Announcement) bool {
		counts := last[a.Service].Version
		if (a.Version == counts) != (b.Version == counts) {
			return a.Version == counts
		}
		return later(a, b, (*busv1.Announcement).GetCatalogueUnixNano)
	}
	for service, anns := range services {
		for _, ann := range anns {
			key := catalogueKey(service, ann.CatalogueDigest)
			instances[key] = append(instances[key], ann.Instance)
			versions[key] = append(versions[key], ann.Version)
			if old := youngest[key]; old == nil || before(ann, old) {
				youngest[key] = ann
			}
		}
	}
	sorted := slices.SortedFunc(maps.Values(youngest), func(a, b *busv1.Announcement) int {
		switch {
		case a.Service != b.Service:
			return strings.Compare(a.Service, b.Service)
		case before(a, b):
			return -1
		}
		return 1
	})
	all := map[string][]Release{}
	for _, ann := range sorted {
		key := catalogueKey(ann.Service, ann.CatalogueDigest)
		names, others := instances[key], versions[key]
		slices.Sort(names)
		slices.Sort(others)
		others = slices.DeleteFunc(slices.Compact(others), func(v string) bool { return v == ann.Version })
		all[ann.Service] = append(all[ann.Service], Release{Version: ann.Version, Digest: ann.CatalogueDigest, Instances: names, Others: others})
	}
	return all
}

func names(anns []*busv1.Announcement) []string {
	var all []string
	for _, ann := range anns {
		all = append(all, ann.Instance)
	}
	slices.Sort(all)
	return all
}

func later(a, b *busv1.Announcement, when func(*busv1.Announcement) uint64) bool {
	if when(a) != when(b) {
		return when(a) > when(b)
	}
	return a.Instance > b.Instance
}
