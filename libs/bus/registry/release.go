package registry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/internal/subject"
)

// maxReleases bounds the catalogues of one service that count at once. Instances
// of others are called only for what all instances have in common.
const maxReleases = 4

// settle makes the list of services of the roster, and reports whether it differs. A
// service whose catalogue cannot be read yet keeps the one it had; a second later it is
// looked for again.
func (v *view) settle(ctx context.Context) bool {
	v.unread = false
	v.takeArrived()
	all := v.registry.roster.announcements()
	known := releases(all)
	v.registry.conn.SetInstances(all)
	v.registry.mu.Lock()
	before := v.registry.services
	v.registry.mu.Unlock()
	var now []Service
	for _, name := range slices.Sorted(maps.Keys(known)) {
		s := Service{Name: name, Instances: names(all[name])}
		for i, r := range known[name][:min(len(known[name]), maxReleases)] {
			c, err := v.catalogue(ctx, name, r.Digest)
			if err != nil {
				v.unread = true
				if i > 0 {
					continue
				}
				if i := slices.IndexFunc(before, func(s Service) bool { return s.Name == name }); i >= 0 {
					s = before[i]
				}
				break
			}
			r.Catalogue = c
			if i == 0 {
				s.Version, s.Digest, s.Catalogue = r.Version, r.Digest, c
			}
			s.Releases = append(s.Releases, r)
		}
		if s.Catalogue != nil {
			now = append(now, s)
		}
	}
	v.forget(known)
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

// releases returns, by service, the catalogues that instances announce, without
// what is in them. Every edge comes to the same order: first the catalogue that
// changed last among the instances of the version that started last, then the
// others by when they changed.
func releases(services map[string][]*busv1.Announcement) map[string][]Release {
	last := map[string]*busv1.Announcement{}
	for service, anns := range services {
		for _, ann := range anns {
			if old := last[service]; old == nil || later(ann, old, (*busv1.Announcement).GetStartedUnixNano) {
				last[service] = ann
			}
		}
	}
	// youngest speaks for a catalogue: an instance of the version that counts
	// before any other, of those the one that got it last.
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

// errCatalogueAway says that a catalogue has been asked for.
var errCatalogueAway = errors.New("catalogue is not there yet")

// wantAgain is how long after a catalogue was asked for it is asked for again.
const wantAgain = time.Second

// warnAgain is how long after a warning about the catalogues of a service there may be another
// one: a service that announces one digest after the other must not fill the log.
const warnAgain = time.Minute

// catalogue returns a catalogue that an instance announced. One that the bucket
// does not have, or not within reach, is asked for: its instances then put it
// there again, and this process hears it as they do.
func (v *view) catalogue(ctx context.Context, service, digest string) (*busv1.Catalogue, error) {
	key := catalogueKey(service, digest)
	if c := v.catalogues[key]; c != nil {
		return c, nil
	}
	if time.Now().Before(v.again[key]) {
		return nil, errCatalogueAway
	}
	c, err := v.readCatalogue(ctx, service, digest)
	if err == nil {
		v.catalogues[key] = c
		return c, nil
	}
	r := v.registry
	if time.Since(v.warned[service]) >= warnAgain {
		v.warned[service] = time.Now()
		r.conn.Log().Warn("catalogue not read yet; asking for it", "service", service, "error", err)
	}
	r.mu.Lock()
	r.wanted[key] = true
	r.mu.Unlock()
	v.again[key] = time.Now().Add(wantAgain)
	_ = r.conn.Publish(subject.Catalogue(service, digest), nil)
	return nil, err
}

func (v *view) readCatalogue(ctx context.Context, service, digest string) (*busv1.Catalogue, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	value, err := v.registry.conn.Bucket(bus.CatalogueBucket).Get(ctx, catalogueKey(service, digest))
	if err != nil {
		return nil, err
	}
	return parseCatalogue(service, digest, value)
}

// parseCatalogue reads a catalogue that has to be the one that was announced.
func parseCatalogue(service, digest string, data []byte) (*busv1.Catalogue, error) {
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != digest {
		return nil, errors.New("catalogue is not the one that was announced")
	}
	c := &busv1.Catalogue{}
	if err := proto.Unmarshal(data, c); err != nil {
		return nil, err
	}
	if c.Service != service {
		return nil, errors.New("catalogue is of another service")
	}
	return c, nil
}

// heardCatalogue takes a catalogue that is wanted as its service stores it.
func (r *Registry) heardCatalogue(msg *nats.Msg) {
	key := subject.KeyOf(bus.CatalogueBucket, msg.Subject)
	r.mu.Lock()
	wanted := r.wanted[key]
	r.mu.Unlock()
	service, digest, ok := strings.Cut(key, ".")
	if !wanted || !ok {
		return
	}
	c, err := parseCatalogue(service, digest, msg.Data)
	if err != nil {
		return
	}
	r.mu.Lock()
	delete(r.wanted, key)
	r.arrived[key] = c
	r.mu.Unlock()
	wake(r.changed)
}

// takeArrived takes the catalogues that were heard.
func (v *view) takeArrived() {
	v.registry.mu.Lock()
	defer v.registry.mu.Unlock()
	maps.Copy(v.catalogues, v.registry.arrived)
	clear(v.registry.arrived)
}

// forget drops the catalogues that nobody announces any more.
func (v *view) forget(known map[string][]Release) {
	keep := map[string]bool{}
	for service, all := range known {
		for _, r := range all[:min(len(all), maxReleases)] {
			keep[catalogueKey(service, r.Digest)] = true
		}
	}
	gone := func(key string) bool { return !keep[key] }
	maps.DeleteFunc(v.catalogues, func(key string, _ *busv1.Catalogue) bool { return gone(key) })
	maps.DeleteFunc(v.warned, func(service string, at time.Time) bool { return known[service] == nil && time.Since(at) >= warnAgain })
	maps.DeleteFunc(v.again, func(key string, _ time.Time) bool { return gone(key) })
	v.registry.mu.Lock()
	maps.DeleteFunc(v.registry.wanted, func(key string, _ bool) bool { return gone(key) })
	v.registry.mu.Unlock()
}
