package catalogue

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"math"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/sourcegraph/conc/pool"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/edges"
	"github.com/busbar-mcp/busbar/libs/bus/registry"
	"github.com/busbar-mcp/busbar/libs/bus/storage"
	"github.com/busbar-mcp/busbar/libs/fault"
)

const (
	// claimTime bounds one round of claims; when the bucket does not answer, it is
	// let alone for claimPause.
	claimTime  = 2 * time.Second
	claimPause = 5 * time.Second
	// claimsAtOnce go to the bucket concurrently.
	claimsAtOnce = 16
	// maxClaims bounds the names that are kept for one service. Further ones are
	// served as long as nobody else offers them.
	maxClaims = 10_000
	// renewAfter is the age at which the owner of a name that is there has it for
	// storage.NameTTL from then on; renewals is how many names one edge does that for
	// at a time.
	renewAfter = 12 * time.Hour
	renewals   = 256
)

// owners say which service has a name: the first that was seen with it, until an
// operator says otherwise or it was not seen for storage.NameTTL. The bucket "names"
// is the arbiter between edges: what one of them creates there, all obey.
type owners struct {
	bucket *bus.Bucket
	log    *slog.Logger
	// look says that nothing is written.
	look bool
	// known are the claims in the bucket, by key.
	known map[string]claim
	// failed is when the bucket last did not take all claims.
	failed time.Time
}

// claim is the value of a key.
type claim struct {
	// Name is for people; the key is of the whole one.
	Name    string `json:"name"`
	Service string `json:"service"`
	// Since is when the service was first seen with it; zero where an operator gave
	// it to the service.
	Since time.Time `json:"since,omitzero"`
	// Seen is when it was last renewed, give or take renewAfter.
	Seen time.Time `json:"seen"`
}

func (c claim) encode() []byte {
	raw, err := json.Marshal(c)
	if err != nil { // only strings and a time
		return nil
	}
	return raw
}

func newOwners(ctx context.Context, conn *bus.Conn, log *slog.Logger, look bool) (*owners, error) {
	o := &owners{bucket: conn.Bucket(bus.NamesBucket), log: log, look: look, known: map[string]claim{}}
	o.reload(ctx)
	return o, nil
}

// ownership is which of the services that are there has a name.
type ownership struct {
	known   map[string]claim
	offered map[Name][]string
}

func (o *owners) of(services []registry.Service) ownership {
	return ownership{maps.Clone(o.known), offered(services)}
}

// of returns the service that has a name, and since when, in nanoseconds. A name
// that the bucket does not know yet belongs, since just now, to the one service
// that offers it; if several do, to nobody.
func (o ownership) of(n Name) (service string, since int64) {
	if c, ok := o.known[n.key()]; ok {
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

// assignedPrefixes returns the prefixes of URIs that an operator gave to a
// service.
func (o ownership) assignedPrefixes(service string) []string {
	var all []string
	for key, c := range o.known {
		if n, err := ParseName(c.Name); err == nil && n.Kind == PrefixName && c.Service == service && c.Since.IsZero() && n.key() == key {
			all = append(all, n.Name)
		}
	}
	return all
}

// keyed is a claim with its key.
type keyed struct {
	key string
	claim
}

// wants are the claims that are to be made, now that these services are there;
// none while the bucket is let alone.
func (o *owners) wants(services []registry.Service) []keyed {
	if o.look || time.Since(o.failed) < claimPause {
		return nil
	}
	have := map[string]int{}
	for _, c := range o.known {
		have[c.Service]++
	}
	var wants []keyed
	now := time.Now() // one for all: of names seen at once the one that says most counts
	for n, by := range offered(services) {
		key := n.key()
		if _, ok := o.known[key]; ok || have[by[0]] >= maxClaims {
			continue
		}
		have[by[0]]++
		wants = append(wants, keyed{key, claim{Name: fault.Clip(n.String()), Service: by[0], Since: now, Seen: now}})
	}
	return wants
}

// claim puts names into the bucket, and returns who has them after that. Some may
// be left for the next time.
func (o *owners) claim(ctx context.Context, wants []keyed) ([]keyed, error) {
	ctx, cancel := context.WithTimeout(ctx, claimTime)
	defer cancel()
	p := pool.NewWithResults[keyed]().WithContext(ctx).WithMaxGoroutines(claimsAtOnce)
	for _, w := range wants {
		if ctx.Err() != nil {
			break
		}
		p.Go(func(ctx context.Context) (keyed, error) {
			c, err := o.create(ctx, w.key, w.claim)
			return keyed{w.key, c}, err
		})
	}
	return p.Wait()
}

// made notes the claims that there are. Without any the bucket does not answer.
func (o *owners) made(claims []keyed, err error) {
	for _, c := range claims {
		o.known[c.key] = c.claim
	}
	if err == nil {
		return
	}
	o.failed = time.Now()
	if len(claims) == 0 {
		o.log.Warn("names cannot be kept for their services now; what only one service offers is served nevertheless", "error", err)
	}
}

// create returns the claim that is in the bucket in the end.
func (o *owners) create(ctx context.Context, key string, c claim) (claim, error) {
	first, err := o.bucket.Create(ctx, key, c.encode())
	if err != nil || first {
		return c, err
	}
	raw, err := o.bucket.Get(ctx, key)
	if err != nil {
		return claim{}, err
	}
	err = json.Unmarshal(raw, &c)
	return c, err
}

// reload reads all claims again. One that the bucket has lost, and should not
// have yet, it gets back.
func (o *owners) reload(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, claimTime)
	defer cancel()
	now := map[string]claim{}
	err := o.bucket.All(ctx, func(key string, value []byte) {
		var c claim
		if json.Unmarshal(value, &c) == nil && bus.ValidName(c.Service) == nil {
			now[key] = c
		}
	})
	if err != nil {
		o.log.Warn("the names of services cannot be read; those known count", "error", err)
		return
	}
	for key, c := range o.known {
		if _, there := now[key]; there || time.Since(c.Seen) > storage.NameTTL {
			continue
		}
		now[key] = c
		if o.look {
			continue
		}
		if c, err = o.create(ctx, key, c); err == nil {
			now[key] = c
		}
	}
	o.known, o.failed = now, time.Time{}
}

// renew has the services that are there keep their names.
func (o *owners) renew(ctx context.Context, services []registry.Service) {
	if o.look {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, claimTime)
	defer cancel()
	left := renewals
	for n, by := range offered(services) {
		c, ok := o.known[n.key()]
		if !ok || time.Since(c.Seen) < renewAfter || left == 0 {
			continue
		}
		for _, service := range by {
			if service != c.Service {
				continue
			}
			left--
			err := o.bucket.Change(ctx, n.key(), func(raw []byte) ([]byte, error) {
				if err := json.Unmarshal(raw, &c); err != nil || c.Service != service || time.Since(c.Seen) < renewAfter {
					return nil, errNotRenewed
				}
				c.Seen = time.Now()
				return c.encode(), nil
			})
			if err == nil || errors.Is(err, errNotRenewed) {
				o.known[n.key()] = c
			}
		}
	}
}

// errNotRenewed says that another edge has.
var errNotRenewed = errors.New("renewed already, or another's")

// Assign gives a name to a service, whoever has it. Edges obey within a moment,
// those that do not hear it within the minute.
func Assign(ctx context.Context, conn *bus.Conn, n Name, service string) error {
	if err := bus.ValidName(service); err != nil {
		return err
	}
	if err := conn.Bucket(bus.NamesBucket).Put(ctx, n.key(), claim{Name: fault.Clip(n.String()), Service: service, Seen: time.Now()}.encode()); err != nil {
		return err
	}
	return edges.TellNamesAssigned(ctx, conn)
}
