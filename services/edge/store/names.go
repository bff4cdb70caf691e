package store

import (
	"context"
	"errors"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// Claim says which service has a name, such as a tool's.
type Claim struct {
	// Name is cut if it is too long for the bucket; the key is for the whole name.
	Name    string `json:"name"`
	Service string `json:"service"`
	// Since is when the service was first seen with it. It is later than the time of any earlier
	// claim, whatever the clocks say. It is zero if an operator gave the name to the service.
	Since time.Time `json:"since,omitzero"`
	// Seen is when the service was last seen to offer it, to within RenewAfter.
	Seen time.Time `json:"seen"`
}

// maxClaim is the largest value of the bucket, less the overhead of NATS.
const maxClaim = 4<<10 - 256

func (c Claim) encode() []byte {
	raw, err := json.Marshal(c)
	if err == nil && len(raw) > maxClaim {
		c.Name = fault.Clip(c.Name)
		raw, err = json.Marshal(c)
	}
	if err != nil { // only strings and a time
		return nil
	}
	return raw
}

// RenewAfter is the age at which the claim of a service that is present is renewed, for another
// storage.NameTTL.
const RenewAfter = 12 * time.Hour

// Names are the claims of services, by the key of the name. They are the arbiter between edges:
// all edges obey the claim that one of them creates.
type Names struct{ bucket *bus.Bucket }

// NewNames opens the store.
func NewNames(conn *bus.Conn) *Names { return &Names{conn.Bucket(bus.NamesBucket)} }

// All returns all claims. Malformed ones are left out.
func (s *Names) All(ctx context.Context) (map[string]Claim, error) {
	all := map[string]Claim{}
	err := s.bucket.All(ctx, func(key string, value []byte) {
		var c Claim
		if json.Unmarshal(value, &c) == nil && bus.ValidName(c.Service) == nil {
			all[key] = c
		}
	})
	return all, err
}

// orderKey has the latest time of a claim.
const orderKey = "order"

// Order returns a time for claims that are about to be made: now, or just after the time of all
// earlier claims, if that is later. So the bucket decides which service came first, not the
// clocks of edges.
func (s *Names) Order(ctx context.Context, now time.Time) (at time.Time, err error) {
	err = bus.Swap(func() (bool, error) {
		raw, revision, err := s.bucket.Look(ctx, orderKey)
		if err != nil {
			return false, err
		}
		var last time.Time
		if len(raw) > 0 && json.Unmarshal(raw, &last) != nil {
			last = time.Time{}
		}
		if at = now.UTC(); !at.After(last) {
			at = last.Add(1)
		}
		if raw, err = json.Marshal(at); err != nil {
			return false, err
		}
		made, err := s.bucket.Replace(ctx, orderKey, raw, revision)
		return made > 0, err
	})
	return at, err
}

// Create makes a claim, unless the name is claimed, and returns the claim that the bucket has
// then.
func (s *Names) Create(ctx context.Context, key string, c Claim) (Claim, error) {
	first, err := s.bucket.Create(ctx, key, c.encode())
	if err != nil || first {
		return c, err
	}
	raw, err := s.bucket.Get(ctx, key)
	if err != nil {
		return Claim{}, err
	}
	err = json.Unmarshal(raw, &c)
	return c, err
}

// Put gives a name to a service, whoever has it.
func (s *Names) Put(ctx context.Context, key string, c Claim) error {
	return s.bucket.Put(ctx, key, c.encode())
}

// Renew renews a service's claim that is old enough, and returns the claim that the bucket has
// then.
func (s *Names) Renew(ctx context.Context, key string, c Claim) (Claim, error) {
	service := c.Service
	err := s.bucket.Change(ctx, key, func(raw []byte) ([]byte, error) {
		if err := json.Unmarshal(raw, &c); err != nil || c.Service != service || time.Since(c.Seen) < RenewAfter {
			return nil, errNotRenewed
		}
		c.Seen = time.Now()
		return c.encode(), nil
	})
	if errors.Is(err, errNotRenewed) {
		err = nil
	}
	return c, err
}

// errNotRenewed says that another edge has renewed the claim, or that it is another service's.
var errNotRenewed = errors.New("renewed already, or another's")
