package catalogue

import (
	"context"
	"log/slog"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/sourcegraph/conc/pool"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/edges"
	"github.com/busbar-mcp/busbar/libs/bus/registry"
	"github.com/busbar-mcp/busbar/libs/bus/storage"
	"github.com/busbar-mcp/busbar/services/edge/store"
)

const (
	// claimTime bounds one round of claims. If the bucket does not answer, it is not asked again
	// for claimPause.
	claimTime  = 2 * time.Second
	claimPause = 5 * time.Second
	// claimsAtOnce is how many claims go to the bucket concurrently.
	claimsAtOnce = 16
	// maxClaims bounds the names that are kept for one service. Further names are served as long
	// as no other service offers them.
	maxClaims = 10_000
	// renewals is how many claims one edge renews at a time.
	renewals = 256
)

// owners say which service has a name: the first that was seen with it, until an operator assigns
// it, or until the service was not seen for storage.NameTTL.
type owners struct {
	conn  *bus.Conn
	names *store.Names
	log   *slog.Logger
	// grants return what services may do; they return nil for everything.
	grants func() Grants
	// look is set if nothing is written.
	look bool
	// known are the claims in the store, by key.
	known map[string]store.Claim
	// failed is when the bucket last failed to take all claims.
	failed time.Time
}

func newOwners(ctx context.Context, conn *bus.Conn, cfg Config) *owners {
	o := &owners{conn: conn, names: store.NewNames(conn), log: cfg.Logger, grants: cfg.Grants, look: cfg.Look, known: map[string]store.Claim{}}
	if o.grants == nil {
		o.grants = func() Grants { return nil }
	}
	o.reload(ctx)
	return o
}

// ownership says which of the present services has a name.
type ownership struct {
	known   map[string]store.Claim
	offered map[Name][]string
	// grants are nil for everything.
	grants Grants
	// prefixes of URIs that an operator gave to a service.
	prefixes map[string][]string
	// away are the names for URIs whose services are away.
	away map[Name]string
}

func (o *owners) assign(services []registry.Service) ownership {
	grants := o.grants()
	all := ownership{maps.Clone(o.known), offered(services, grants), grants, map[string][]string{}, map[Name]string{}}
	here := map[string]bool{}
	for _, s := range services {
		here[s.Name] = true
	}
	for key, c := range o.known {
		n, err := ParseName(c.Name)
		if err != nil || n.key() != key {
			continue // the claim does not have all of it
		}
		if ok, _ := all.may(c.Service, n); !ok {
			continue
		}
		switch {
		case !here[c.Service] && (n.Kind == ResourceName || n.Kind == TemplateName || n.Kind == PrefixName && n.Name != ""):
			all.away[n] = c.Service
		case n.Kind == PrefixName && c.Since.IsZero():
			all.prefixes[c.Service] = append(all.prefixes[c.Service], n.Name)
		}
	}
	return all
}

// owner returns the service that has a name, and since when, in Unix nanoseconds. A name without
// a claim in the bucket, or whose claim is for a service that is not granted it, belongs to the
// only service that offers it, since just now. If several services offer it, it belongs to
// nobody.
func (o ownership) owner(n Name) (service string, since int64) {
	if c, ok := o.claim(n); ok {
		if c.Since.IsZero() {
			return c.Service, 0
		}
		return c.Service, c.Since.UnixNano()
	}
	if by := o.offered[n]; len(by) == 1 {
		return by[0], math.MaxInt64
	}
	return "", math.MaxInt64
}

// claim is the claim to a name, if its service may have the name.
func (o ownership) claim(n Name) (store.Claim, bool) {
	c, ok := o.known[n.key()]
	if ok {
		ok, _ = o.may(c.Service, n)
	}
	return c, ok
}

// keyed is a claim with its key.
type keyed struct {
	key string
	store.Claim
}

// wants are the claims to make for the present services; none while the bucket is paused after a
// failure.
func (o *owners) wants(services []registry.Service) []keyed {
	if o.look || time.Since(o.failed) < claimPause {
		return nil
	}
	have := map[string]int{}
	now := o.conn.Now()
	// One time for all: of names that are seen at once, the most specific counts.
	since := now
	for _, c := range o.known {
		have[c.Service]++
		if !since.After(c.Since) {
			since = c.Since.Add(1) // the bucket may have lost it
		}
	}
	var wants []keyed
	for n, by := range offered(services, o.grants()) {
		key := n.key()
		if _, ok := o.known[key]; ok || have[by[0]] >= maxClaims {
			continue
		}
		have[by[0]]++
		wants = append(wants, keyed{key, store.Claim{Name: n.String(), Service: by[0], Since: since, Seen: now}})
	}
	return wants
}

// claim puts names into the bucket, and returns their owners after that. Some may be left for the
// next round.
func (o *owners) claim(ctx context.Context, wants []keyed) ([]keyed, error) {
	ctx, cancel := context.WithTimeout(ctx, claimTime)
	defer cancel()
	since, err := o.names.Order(ctx, wants[0].Since)
	if err != nil {
		return nil, err
	}
	p := pool.NewWithResults[keyed]().WithContext(ctx).WithMaxGoroutines(claimsAtOnce)
	for _, w := range wants {
		if ctx.Err() != nil {
			break
		}
		p.Go(func(ctx context.Context) (keyed, error) {
			w.Since = since
			c, err := o.names.Create(ctx, w.key, w.Claim)
			return keyed{w.key, c}, err
		})
	}
	return p.Wait()
}

// made notes the claims that now exist. Without any, the bucket does not answer.
func (o *owners) made(claims []keyed, err error) {
	for _, c := range claims {
		o.known[c.key] = c.Claim
	}
	if err == nil {
		return
	}
	o.failed = time.Now()
	if len(claims) == 0 {
		o.log.Warn("names cannot be kept for their services now; what only one service offers is served nevertheless", "error", err)
	}
}

// reload reads all claims again, and reports whether names have other owners. It writes back a
// claim that the bucket has lost before its time.
func (o *owners) reload(ctx context.Context) (changed bool) {
	ctx, cancel := context.WithTimeout(ctx, claimTime)
	defer cancel()
	now, err := o.names.All(ctx)
	if err != nil {
		o.log.Warn("the names of services cannot be read; those known count", "error", err)
		return false
	}
	for key, c := range o.known {
		if _, there := now[key]; there || time.Since(c.Seen) > storage.NameTTL {
			continue
		}
		now[key] = c
		if o.look {
			continue
		}
		if c, err = o.names.Create(ctx, key, c); err == nil {
			now[key] = c
		}
	}
	changed = !maps.EqualFunc(o.known, now, func(x, y store.Claim) bool { return x.Service == y.Service && x.Since.Equal(y.Since) })
	o.known, o.failed = now, time.Time{}
	return changed
}

// renew renews the claims of the services that are present.
func (o *owners) renew(ctx context.Context, services []registry.Service) {
	if o.look {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, claimTime)
	defer cancel()
	left := renewals
	for n, by := range offered(services, o.grants()) {
		c, ok := o.known[n.key()]
		if !ok || time.Since(c.Seen) < store.RenewAfter || left == 0 {
			continue
		}
		if slices.Contains(by, c.Service) {
			left--
			if c, err := o.names.Renew(ctx, n.key(), c); err == nil {
				o.known[n.key()] = c
			}
		}
	}
}

// Assign gives a name to a service, whoever has it. Edges obey within a moment, and those that
// miss the message within a minute.
func Assign(ctx context.Context, conn *bus.Conn, n Name, service string) error {
	if err := bus.ValidName(service); err != nil {
		return err
	}
	if err := store.NewNames(conn).Put(ctx, n.key(), store.Claim{Name: n.String(), Service: service, Seen: time.Now()}); err != nil {
		return err
	}
	return edges.TellNamesAssigned(ctx, conn)
}
