package registry

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/internal/subject"
	"github.com/busbar-mcp/busbar/libs/bus/internal/wire"
)

// MaxCatalogues is how many bytes of catalogues an edge keeps at once, of all services. The
// bucket keeps no more either.
//
//limit:service all catalogues that an edge knows | others wait, and the log says so
const MaxCatalogues = 256 << 20

const (
	// readTime limits how long catalogues are read before the list of services is made, readAtStart
	// how long before the first list: an edge that starts should know them all.
	readTime, readAtStart = time.Second, 10 * time.Second
	// wantAgain is the wait before an edge looks again for a catalogue that it asked for. The wait
	// doubles each time no instance had it, up to wantSeldom: a made-up service has none.
	wantAgain, wantSeldom = time.Second, 16 * time.Second
	// tellUnread is how often the log may say that catalogues could not be read.
	tellUnread = 10 * time.Second
)

// catalogues are the announced catalogues. If the bucket lacks one or is unreachable, the edge asks
// for it: an instance then stores it again, and this process hears that.
type catalogues struct {
	conn *bus.Conn
	// known and missing are by key. bytes is the total size of known, told the time of the last log
	// line about missing ones. They belong to the goroutine that makes the list of services.
	known   map[string]catalogue
	missing map[string]absence
	bytes   int
	told    time.Time

	mu sync.Mutex
	// wanted are the keys of catalogues that could not be read; arrived has those that were heard
	// since, waiting is their total size.
	wanted  map[string]bool
	arrived map[string]catalogue
	waiting int
}

// catalogue is a catalogue and its size in bytes.
type catalogue struct {
	*busv1.Catalogue
	size int
}

// absence is when a catalogue is looked for again, and how often nobody had it.
type absence struct {
	again time.Time
	times int
}

// announced is a catalogue that an instance announced.
type announced struct{ service, digest, key string }

func newCatalogues(conn *bus.Conn) *catalogues {
	return &catalogues{conn: conn, known: map[string]catalogue{}, missing: map[string]absence{}, wanted: map[string]bool{}, arrived: map[string]catalogue{}}
}

// get returns a catalogue, or nil.
func (s *catalogues) get(service, digest string) *busv1.Catalogue {
	return s.known[catalogueKey(service, digest)].Catalogue
}

// settle takes what has arrived, drops what nobody announces any more, and looks for what is
// missing, for at most the given time. It reports whether all is known.
func (s *catalogues) settle(ctx context.Context, known map[string][]Release, within time.Duration) bool {
	all := map[string]announced{}
	for service, releases := range known {
		for _, r := range releases[:min(len(releases), maxReleases)] {
			key := catalogueKey(service, r.Digest)
			all[key] = announced{service, r.Digest, key}
		}
	}
	s.forget(all)
	s.takeArrived(all)
	now, missing := time.Now(), 0
	var due []announced
	for key, one := range all {
		if s.known[key].Catalogue != nil {
			continue
		}
		if missing++; !now.Before(s.missing[key].again) {
			due = append(due, one)
		}
	}
	// New ones come first, then those that were looked for longest ago: so none waits behind the
	// many that do not exist.
	slices.SortFunc(due, func(a, b announced) int {
		return cmp.Or(s.missing[a.key].again.Compare(s.missing[b.key].again), strings.Compare(a.key, b.key))
	})
	return s.look(ctx, due, within) == missing
}

// look reads catalogues while the bucket answers, for at most the given time, and requests those
// that it does not find. It returns how many it has found.
func (s *catalogues) look(ctx context.Context, due []announced, within time.Duration) (found int) {
	began, reads := time.Now(), true
	var unread announced
	var why error
	for _, one := range due {
		if !reads {
			s.ask(one, false)
			continue
		}
		err := s.read(ctx, one)
		if err == nil {
			found++
		} else {
			s.ask(one, !wire.NoAnswer(err))
			unread, why = one, err
		}
		reads = time.Since(began) < within && !wire.NoAnswer(err)
	}
	if why != nil && time.Since(s.told) > tellUnread {
		s.told = time.Now()
		s.conn.Log().Warn("catalogues not read yet; asking for them", "missing", len(s.missing), "service", unread.service, "error", why)
	}
	return found
}

// ask makes an instance store a catalogue again. absent is set if no instance had it at the last
// search.
func (s *catalogues) ask(one announced, absent bool) {
	a := s.missing[one.key]
	a.again = time.Now().Add(min(wantAgain<<a.times, wantSeldom))
	if absent {
		a.times = min(a.times+1, 10)
	}
	s.missing[one.key] = a
	s.mu.Lock()
	s.wanted[one.key] = true
	s.mu.Unlock()
	_ = s.conn.Publish(subject.Catalogue(one.service, one.digest), nil)
}

// read takes a catalogue from the bucket.
func (s *catalogues) read(ctx context.Context, one announced) error {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	value, err := s.conn.Bucket(bus.CatalogueBucket).Get(ctx, one.key)
	if err != nil {
		return err
	}
	c, err := parseCatalogue(one.service, one.digest, value)
	if err != nil {
		return err
	}
	return s.take(one.key, c)
}

// take keeps a catalogue if there is room for it.
func (s *catalogues) take(key string, c catalogue) error {
	if s.bytes+c.size > MaxCatalogues {
		return fmt.Errorf("services announce more than %d MiB of catalogues; the edge ignores those that it does not know yet", MaxCatalogues>>20)
	}
	s.bytes += c.size - s.known[key].size
	s.known[key] = c
	delete(s.missing, key)
	return nil
}

// parseCatalogue reads a catalogue, which must be the announced one.
func parseCatalogue(service, digest string, data []byte) (catalogue, error) {
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != digest {
		return catalogue{}, errors.New("catalogue is not the one that was announced")
	}
	c := &busv1.Catalogue{}
	if err := proto.Unmarshal(data, c); err != nil {
		return catalogue{}, err
	}
	if c.Service != service {
		return catalogue{}, errors.New("catalogue is of another service")
	}
	return catalogue{c, len(data)}, nil
}

// heard keeps a wanted catalogue when its service stores it, and reports whether it did. Without room
// the catalogue stays wanted.
func (s *catalogues) heard(msg *nats.Msg) bool {
	key := subject.KeyOf(bus.CatalogueBucket, msg.Subject)
	service, digest, ok := strings.Cut(key, ".")
	s.mu.Lock()
	wanted := s.wanted[key] && s.waiting+len(msg.Data) <= MaxCatalogues
	s.mu.Unlock()
	if !wanted || !ok {
		return false
	}
	c, err := parseCatalogue(service, digest, msg.Data)
	if err != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.wanted, key)
	s.arrived[key] = c
	s.waiting += c.size
	return true
}

// takeArrived takes the catalogues that were heard and are still announced.
func (s *catalogues) takeArrived(announced map[string]announced) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, c := range s.arrived {
		if _, ok := announced[key]; ok {
			_ = s.take(key, c) // without room it stays missing
		}
	}
	clear(s.arrived)
	s.waiting = 0
}

// forget drops the catalogues that nobody announces any more.
func (s *catalogues) forget(all map[string]announced) {
	gone := func(key string) bool { _, ok := all[key]; return !ok }
	maps.DeleteFunc(s.known, func(key string, c catalogue) bool {
		if gone(key) {
			s.bytes -= c.size
		}
		return gone(key)
	})
	maps.DeleteFunc(s.missing, func(key string, _ absence) bool { return gone(key) })
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.wanted, func(key string, _ bool) bool { return gone(key) })
}
