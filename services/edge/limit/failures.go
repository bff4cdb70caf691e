package limit

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

const (
	// failuresAtOnce and failuresEvery bound the invalid credentials that one network may show:
	// so many at once, then one per interval.
	//limit:share invalid credentials that one network may show at once | `rate_limited`
	failuresAtOnce = 20
	//limit:share interval at which one network may show one more invalid credential | `rate_limited`
	failuresEvery = time.Second
	// trying bounds the credentials of one network that are checked at the same time while some
	// of it have failed.
	trying = 256
	// maxNetworks bounds the networks whose failures are counted, and maxGood the valid
	// credentials that are remembered of each. Beyond these numbers, some are forgotten.
	maxNetworks = 1 << 16
	maxGood     = 256
)

// Failures bounds the invalid credentials that one network (an IPv4 address, an IPv6 /64) may
// have checked, before they cost anything. Credentials that were valid since the failures of the
// network began are always checked. Other credentials of the same network cannot be told from
// invalid ones, so they wait while there are too many failures. Requests without credentials are
// not counted, and neither is this machine itself.
type Failures struct {
	next gateway.Authenticator
	now  func() time.Time
	// headers that carry credentials
	headers  []string
	capacity int // of networks

	mu       sync.Mutex
	networks map[string]*failing
}

// failing is a network whose credentials have failed.
type failing struct {
	// paid is when the last of its failures no longer counts.
	paid   time.Time
	trying int
	good   map[[sha256.Size]byte]struct{}
}

// NewFailures puts the bound before an Authenticator. If that has a method Headers, credentials
// are also looked for in the headers that it names, besides Authorization.
func NewFailures(next gateway.Authenticator) *Failures {
	f := &Failures{next: next, now: time.Now, headers: []string{"Authorization"}, capacity: maxNetworks, networks: map[string]*failing{}}
	if own, ok := next.(interface{ Headers() []string }); ok {
		f.headers = append(f.headers, own.Headers()...)
	}
	return f
}

// OnEnded implements gateway.Ender, if the bounded Authenticator does.
func (f *Failures) OnEnded(told func(credential string)) (stop func()) {
	if e, ok := f.next.(gateway.Ender); ok {
		return e.OnEnded(told)
	}
	return func() {}
}

// Authenticate implements gateway.Authenticator. The error has reason RateLimited if the
// credentials were not checked.
func (f *Failures) Authenticate(ctx context.Context, c gateway.Credentials) (gateway.Principal, error) {
	network := networkOf(cmp.Or(c.Client, c.Address))
	if network == "" {
		return f.next.Authenticate(ctx, c)
	}
	n, err := f.begin(network, c)
	if err != nil {
		return gateway.Principal{}, err
	}
	p, err := f.next.Authenticate(ctx, c)
	if n != nil || fault.Is(err, fault.Unauthenticated) && f.shown(c) {
		f.end(network, n, c, err)
	}
	return p, err
}

// begin lets credentials be checked. n is their network if some of its credentials have failed.
func (f *Failures) begin(network string, c gateway.Credentials) (n *failing, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n = f.networks[network]
	if n == nil || !f.shown(c) {
		return nil, nil
	}
	if _, good := n.good[f.digest(c)]; good {
		return nil, nil
	}
	wait := n.paid.Sub(f.now()) - (failuresAtOnce-1)*failuresEvery
	if wait > 0 || n.trying >= trying {
		e := fault.New(fault.RateLimited, "too many credentials from your network were invalid, so these were not checked; try again later")
		e.RetryAfter = max(wait, failuresEvery)
		return nil, e
	}
	n.trying++
	return n, nil
}

// end notes the result of the check.
func (f *Failures) end(network string, n *failing, c gateway.Credentials, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n != nil {
		n.trying--
	}
	now := f.now()
	switch {
	case fault.Is(err, fault.Unauthenticated):
		if n = f.networks[network]; n == nil {
			n = f.add(network, now)
		}
		if n.paid.Before(now) {
			n.paid = now
		}
		n.paid = n.paid.Add(failuresEvery)
		delete(n.good, f.digest(c)) // no longer valid
	case err == nil:
		for one := range n.good {
			if len(n.good) < maxGood {
				break
			}
			delete(n.good, one)
		}
		n.good[f.digest(c)] = struct{}{}
	}
}

// add begins to count the failures of a network. It looks at a few other networks: those whose
// failures no longer count are removed and, at the bound, so is the one with the fewest failures.
func (f *Failures) add(network string, now time.Time) *failing {
	looked, least := 0, ""
	for name, n := range f.networks {
		if looked++; looked > 8 {
			break
		}
		if n.paid.Before(now) && n.trying == 0 {
			delete(f.networks, name)
		} else if least == "" || n.paid.Before(f.networks[least].paid) {
			least = name
		}
	}
	if len(f.networks) >= f.capacity {
		delete(f.networks, least)
	}
	n := &failing{good: map[[sha256.Size]byte]struct{}{}}
	f.networks[network] = n
	return n
}

// shown reports whether there are credentials at all.
func (f *Failures) shown(c gateway.Credentials) bool {
	if c.Bearer != "" || c.Certificate != nil {
		return true
	}
	return slices.ContainsFunc(f.headers, func(name string) bool { return len(c.Header[name]) > 0 })
}

// digest tells credentials apart. A proof of possession differs with each request, so it is left
// out.
func (f *Failures) digest(c gateway.Credentials) (sum [sha256.Size]byte) {
	h := sha256.New()
	put := func(s string) { fmt.Fprintf(h, "%d:%s", len(s), s) }
	put(c.Bearer)
	if c.Certificate != nil {
		put(string(c.Certificate.Raw))
	}
	for _, name := range f.headers {
		put(strings.Join(c.Header[name], "\x00"))
	}
	h.Sum(sum[:0])
	return sum
}

// networkOf is the network of an address that one client has. It is empty for this machine: such
// a client uses stdio, or a proxy behind which all clients have one address.
func networkOf(address string) string {
	a, err := netip.ParseAddr(address)
	if err != nil {
		return address
	}
	a = a.Unmap().WithZone("")
	if a.IsLoopback() {
		return ""
	}
	if a.Is4() {
		return a.String()
	}
	p, _ := a.Prefix(64)
	return p.String()
}
