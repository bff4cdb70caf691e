package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/internal/subject"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// Services write some buckets, each under its own name, and NATS bounds a bucket only as a whole.
// So edges enforce the shares. As long as there is room, a service may use any of it. Once a bucket
// is tight, a service with more than its share may add nothing; once it is full, such a service
// loses its oldest entries. See ADR 0022.
const (
	// tight and full are parts of a bucket's limit; divided is the part that is divided into
	// shares, so that a bucket which was full has room again.
	tight, full, divided = 0.75, 0.9, 0.5
	// accountEvery is how often the account of a bucket is read if it is not tight: entries may
	// have a time to live that is longer than the bucket's age limit.
	accountEvery = 5 * time.Minute
	// watchEvery is the interval of checks of a bucket after a service had to lose entries, and
	// watchFor how long they continue.
	watchEvery, watchFor = time.Second, time.Minute
	// ttlSlack is how much longer than its bucket's age limit an entry may live.
	ttlSlack = time.Minute
	// maxSingle is how many entries of a service are removed one by one.
	maxSingle = 64
)

// Share is one service's part of a shared bucket.
type Share struct {
	Service string `json:"service"`
	Entries int    `json:"entries"`
	// Bytes counts each entry with at least the bucket's limit divided by its largest number of
	// entries, because that number is limited too.
	Bytes int64 `json:"bytes"`
}

// account has the shares of all services in a bucket.
type account struct {
	at time.Time
	// took is how long reading it took.
	took time.Duration
	// level is the share of a service in bytes, if all have the same.
	level int64
	// shares are by service.
	shares map[string]*ledger
	// tight is set if the bucket is tight; room, if entries beyond the shares are removed.
	tight, room bool
}

// ledger has the entries of one service, in the order in which they were written.
type ledger struct {
	bytes   int64
	weights []int64
	// lasting are the subjects of entries that outlive the bucket's age limit.
	lasting []string
}

// level is the most that each party may use of room, if parties that use less leave the rest to the
// others. There is no limit if all fit.
func level(uses []int64, room int64) int64 {
	uses = slices.Sorted(slices.Values(uses))
	for i, use := range uses {
		equal := room / int64(len(uses)-i)
		if use > equal {
			return equal
		}
		room -= use
	}
	return math.MaxInt64
}

// keeps is how many of the newest entries a party keeps if it may have so many bytes.
func (l *ledger) keeps(bytes int64) (n int) {
	for _, w := range slices.Backward(l.weights) {
		if bytes -= w; bytes < 0 {
			break
		}
		n++
	}
	return n
}

// fullness is the used part of a bucket's limits.
func fullness(info *jetstream.StreamInfo) float64 {
	return max(part(info.State.Bytes, info.Config.MaxBytes), part(info.State.Msgs, info.Config.MaxMsgs))
}

func part(used uint64, limit int64) float64 {
	if limit <= 0 {
		return 0
	}
	return float64(used) / float64(limit)
}

// read makes the account of a bucket. It reads the names and sizes of entries, not their contents.
func (s *Storage) read(ctx context.Context, one store, info *jetstream.StreamInfo) (*account, error) {
	a := &account{at: time.Now(), shares: map[string]*ledger{}, level: math.MaxInt64, tight: fullness(info) >= tight}
	if info.State.Msgs == 0 {
		return a, nil
	}
	least := int64(0)
	if info.Config.MaxMsgs > 0 {
		least = info.Config.MaxBytes / info.Config.MaxMsgs
	}
	read, due, err := s.entries(ctx, one, info.Config.MaxAge, func(e entry) {
		service, _, _ := strings.Cut(subject.KeyOf(one.bucket, e.subject), ".")
		if bus.ValidName(service) != nil {
			return // no service, and perhaps a pattern
		}
		l := a.shares[service]
		if l == nil {
			l = &ledger{}
			a.shares[service] = l
		}
		weight := max(e.size, least)
		l.bytes += weight
		l.weights = append(l.weights, weight)
		if e.lasts {
			l.lasting = append(l.lasting, e.subject)
		}
	})
	if err != nil || read < due/2 {
		return nil, errors.Join(err, fmt.Errorf("%d of %d entries came", read, due))
	}
	uses := make([]int64, 0, len(a.shares))
	for _, l := range a.shares {
		uses = append(uses, l.bytes)
	}
	a.level = level(uses, int64(divided*float64(info.Config.MaxBytes)))
	return a, nil
}

// outlives reports whether an entry with this time to live, as its writer set it, stays longer than
// the bucket's age limit.
func outlives(ttl string, age time.Duration) bool {
	if ttl == "" || age <= 0 {
		return false
	}
	d, err := time.ParseDuration(ttl)
	if seconds, bad := strconv.ParseInt(ttl, 10, 64); bad == nil {
		d, err = time.Duration(min(seconds, math.MaxInt64/int64(time.Second)))*time.Second, nil
	}
	return err != nil || d > age+ttlSlack // "never" does not parse
}

// share updates the account of a shared bucket if that is due. It removes a service's entries
// beyond its share if the bucket is full or room is requested.
func (s *Storage) share(ctx context.Context, one store, info *jetstream.StreamInfo, room bool) error {
	if one.keys == 0 {
		return nil
	}
	asked := time.Now()
	s.sharing.Lock()
	defer s.sharing.Unlock()
	s.mu.Lock()
	last := s.accounts[one.bucket]
	s.mu.Unlock()
	if room && last != nil && last.room && last.at.After(asked) {
		return nil // another caller has made room meanwhile
	}
	fill := fullness(info)
	if last != nil && !room && fill < tight && !last.tight && time.Since(last.at) < accountEvery {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, ensureTime)
	defer cancel()
	a, err := s.read(ctx, one, info)
	if err != nil {
		return fmt.Errorf("who has what in %s is not known: %w", one.name, err)
	}
	a.room, a.took = room, time.Since(a.at)
	s.mu.Lock()
	s.accounts[one.bucket] = a
	s.mu.Unlock()
	for service, l := range a.shares {
		var removed int
		switch {
		case len(l.lasting) > maxSingle:
			removed, err = s.purge(ctx, one, subject.Key(one.bucket, service+".>"), 0)
		case len(l.lasting) > 0:
			for _, at := range l.lasting {
				var n int
				if n, err = s.purge(ctx, one, at, 0); err != nil {
					break
				}
				removed += n
			}
		case l.bytes > a.level && (room || fill >= full):
			removed, err = s.purge(ctx, one, subject.Key(one.bucket, service+".>"), l.keeps(a.level))
		}
		if err != nil {
			return fmt.Errorf("what service %s has in %s beyond its share cannot be removed: %w", service, one.name, err)
		}
		if removed > 0 {
			s.noteTrimmed(one, service, l, a.level, removed)
		}
	}
	return nil
}

// purge removes the entries on some subjects, except the newest.
func (s *Storage) purge(ctx context.Context, one store, at string, keep int) (removed int, err error) {
	found, err := s.conn.JetStream().Stream(ctx, one.stream)
	if err != nil {
		return 0, err
	}
	before := found.CachedInfo().State.Msgs
	options := []jetstream.StreamPurgeOpt{jetstream.WithPurgeSubject(at)}
	if keep > 0 {
		options = append(options, jetstream.WithPurgeKeep(uint64(keep)))
	}
	if err := found.Purge(ctx, options...); err != nil {
		return 0, err
	}
	now, err := found.Info(ctx)
	if err != nil {
		return 0, err
	}
	return int(before) - int(now.State.Msgs), nil
}

func (s *Storage) noteTrimmed(one store, service string, l *ledger, level int64, removed int) {
	s.mu.Lock()
	s.trimmed = time.Now()
	key := one.bucket + "." + service
	soon := time.Since(s.told[key]) < watchFor
	if !soon {
		s.told[key] = time.Now()
	}
	maps.DeleteFunc(s.told, func(_ string, at time.Time) bool { return time.Since(at) > watchFor })
	s.mu.Unlock()
	if !soon {
		s.conn.Log().Warn("a service fills a part of the bus's storage that others need; what it has beyond its share, or beyond the time that is kept, is removed, the oldest first",
			"what", one.name, "service", service, "MiB", l.bytes>>20, "share MiB", min(level, l.bytes)>>20, "entries", len(l.weights), "removed", removed)
	}
}

// MakeRoom removes the entries of other services beyond their shares from a full bucket. It refuses
// a service that exceeds its own share; Admit does so before a write.
func (s *Storage) MakeRoom(ctx context.Context, bucket, service string) error {
	i := slices.IndexFunc(stores, func(one store) bool { return one.bucket == bucket })
	if i < 0 {
		return nil
	}
	info, err := s.look(ctx, stores[i])
	if err != nil {
		return err
	}
	if err := s.share(ctx, stores[i], info, true); err != nil {
		return err
	}
	return s.Admit(bucket, service)
}

// Admit refuses a service that exceeds its share of a tight bucket, as far as is known here. The
// bucket is checked again by the time that the refusal names.
func (s *Storage) Admit(bucket, service string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.accounts[bucket]
	if a == nil || !a.tight || a.shares[service] == nil || a.shares[service].bytes <= a.level {
		return nil
	}
	select {
	case s.refused <- struct{}{}:
	default:
	}
	e := fault.New(fault.Overloaded, "service %s keeps as many %s as the bus has room for; try again once some have ended", service, bucket)
	e.RetryAfter = max(watchEvery, a.stays()+a.took)
	return e
}

// stays is the remaining time before the account is read again for a refused service: such a
// service may retry constantly, and reading a large bucket takes seconds.
func (a *account) stays() time.Duration {
	return max(0, max(watchEvery, 10*a.took)-time.Since(a.at))
}

// refusing is the time until the next check after a service was refused.
func (s *Storage) refusing() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	soon := keepEvery
	for _, a := range s.accounts {
		if a.tight {
			soon = min(soon, a.stays())
		}
	}
	return soon
}

// Shares returns the shares of services in each shared bucket as last read, by the name of the
// store: the largest first, at most the given number.
func (s *Storage) Shares(most int) map[string][]Share {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string][]Share{}
	for bucket, a := range s.accounts {
		var shares []Share
		for service, l := range a.shares {
			shares = append(shares, Share{service, len(l.weights), l.bytes})
		}
		slices.SortFunc(shares, func(a, b Share) int {
			return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Service, b.Service))
		})
		all["bucket "+bucket] = shares[:min(len(shares), most)]
	}
	return all
}
