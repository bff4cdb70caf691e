package oauth

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/fault"
)

// key is a key of an issuer.
type key struct {
	public any
	// alg is its only algorithm; empty means any that suits.
	alg        string
	thumbprint string
}

func (k *key) fits(alg string) bool { return (k.alg == "" || k.alg == alg) && suits(alg, k.public) }

func contains(keys []*key, one *key) bool {
	return slices.ContainsFunc(keys, func(k *key) bool { return k.thumbprint == one.thumbprint && k.alg == one.alg })
}

// maxKeys is the largest number of keys of an issuer.
const maxKeys = 100

// parseKeys reads a JWK Set (RFC 7517). It skips keys of other kinds.
func parseKeys(raw []byte) (map[string][]*key, error) {
	var set struct {
		Keys []jsontext.Value `json:"keys"`
	}
	if err := json.Unmarshal(raw, &set); err != nil {
		return nil, err
	}
	all := map[string][]*key{}
	for _, one := range set.Keys[:min(len(set.Keys), maxKeys)] {
		var uses struct {
			Operations []string `json:"key_ops"`
		}
		var k jose.JSONWebKey
		if json.Unmarshal(one, &uses) != nil || uses.Operations != nil && !slices.Contains(uses.Operations, "verify") {
			continue
		}
		if k.UnmarshalJSON(one) != nil || !k.Valid() || !k.IsPublic() || k.Use != "" && k.Use != "sig" || k.KeyID == "" {
			continue
		}
		thumbprint, err := k.Thumbprint(sha)
		if err != nil {
			continue
		}
		all[k.KeyID] = append(all[k.KeyID], &key{public: k.Key, alg: k.Algorithm, thumbprint: string(thumbprint)})
	}
	return all, nil
}

// Times of the keys of an issuer.
const (
	// freshTime is how long they are used before they are read again. A withdrawn key is
	// refused after that.
	freshTime = 5 * time.Minute
	// staleTime is how much longer they are used while the issuer does not answer.
	staleTime = time.Hour
	// readPause is the least time between two reads, whatever is requested, and retryPause the
	// same while there are no keys at all. No request waits for it: until the next read, a
	// key that the last one did not return is refused.
	readPause  = 10 * time.Second
	retryPause = 2 * time.Second
	// readTime is the time limit of a read.
	readTime = 3 * time.Second
	// maxWaiting bounds the requests that wait for a read.
	maxWaiting = 256
)

// ring is the keys of an issuer from one read.
type ring struct {
	keys map[string][]*key
	// began is the start of the read; later keys are not in it.
	began time.Time
}

// keySet is the keys of an issuer. They are read when a token first needs them, and again when they are
// old or a token names an unknown one: once for all waiting requests, and at most every 10 s.
type keySet struct {
	read func(context.Context) (map[string][]*key, error)
	now  atomic.Pointer[ring]

	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu sync.Mutex
	// reading is closed when the current read ends; nil between reads.
	reading chan struct{}
	// pause is the earliest time of the next read.
	pause   time.Time
	waiting int
	// failed is set if the last read failed.
	failed bool
}

func newKeySet(read func(context.Context) (map[string][]*key, error)) *keySet {
	s := &keySet{read: read}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// close ends the reads.
func (s *keySet) close() {
	s.mu.Lock()
	s.cancel()
	s.mu.Unlock()
	s.running.Wait()
}

// errNoKeys says that it is unknown whether the token is good or bad.
var errNoKeys = fault.New(fault.Unavailable, "the keys of the token's issuer cannot be read; try again shortly")

func retryLater(after time.Duration) error {
	e := *errNoKeys
	e.RetryAfter = after
	return &e
}

// usable returns the keys that may be used; nil if they are missing or too old.
func (s *keySet) usable() *ring {
	if r := s.now.Load(); r != nil && time.Since(r.began) < freshTime+staleTime {
		return r
	}
	return nil
}

// find returns the keys with an id. If they are unknown it reads the issuer's keys, if a read may begin.
// The error is a *fault.Error: Unauthenticated if the issuer has no such key, Unavailable if it did not
// answer.
func (s *keySet) find(ctx context.Context, kid string) ([]*key, error) {
	have := s.usable()
	if have != nil && have.keys[kid] != nil {
		if time.Since(have.began) >= freshTime {
			s.refresh()
		}
		return have.keys[kid], nil
	}
	read, err := s.wait(have)
	if err != nil {
		return nil, err
	}
	select {
	case <-read:
	case <-ctx.Done():
		err = errNoKeys.Because(ctx.Err())
	case <-s.ctx.Done():
		err = errNoKeys
	}
	s.mu.Lock()
	s.waiting--
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	now := s.usable()
	switch {
	case now == nil || now == have:
		return nil, retryLater(retryPause) // the read failed
	case now.keys[kid] == nil:
		return nil, errNotTheirs
	}
	return now.keys[kid], nil
}

var errNotTheirs = bad("key is not the issuer's")

// ended is a finished read.
var ended = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// refresh reads the keys again without waiting.
func (s *keySet) refresh() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !time.Now().Before(s.pause) {
		s.begin()
	}
}

// wait returns a channel that is closed when a read ends, the current one or a new one. A caller that gets
// a channel releases its slot afterwards.
func (s *keySet) wait(have *ring) (<-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := time.Until(s.pause)
	switch {
	case s.ctx.Err() != nil:
		return nil, errNoKeys
	case s.usable() != have: // a read has just ended
		s.waiting++
		return ended, nil
	case s.reading == nil && left > 0 && (s.failed || have == nil):
		return nil, retryLater(left)
	case s.reading == nil && left > 0:
		return nil, errNotTheirs
	case s.waiting >= maxWaiting:
		return nil, retryLater(retryPause)
	}
	s.waiting++
	return s.begin(), nil
}

// begin starts a read, unless one is running, and returns the channel that its end closes.
func (s *keySet) begin() <-chan struct{} {
	if s.reading == nil && s.ctx.Err() == nil {
		s.reading = make(chan struct{})
		s.running.Go(s.reread)
	}
	return s.reading
}

func (s *keySet) reread() {
	began := time.Now()
	ctx, cancel := context.WithTimeout(s.ctx, readTime)
	defer cancel()
	keys, err := s.read(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.now.Store(&ring{keys, began})
	}
	s.failed = err != nil
	s.pause = began.Add(readPause)
	if s.now.Load() == nil {
		s.pause = time.Now().Add(retryPause)
	}
	close(s.reading)
	s.reading = nil
}
