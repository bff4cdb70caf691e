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
	// alg is the only algorithm it is for; empty for any that suits.
	alg        string
	thumbprint string
}

func (k *key) fits(alg string) bool { return (k.alg == "" || k.alg == alg) && suits(alg, k.public) }

func contains(keys []*key, one *key) bool {
	return slices.ContainsFunc(keys, func(k *key) bool { return k.thumbprint == one.thumbprint && k.alg == one.alg })
}

// maxKeys bounds the keys of an issuer.
const maxKeys = 100

// parseKeys reads a JWK Set (RFC 7517). Keys of kinds that are not used here are
// left out.
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
	// freshTime is how long they are used before they are read again: what an issuer
	// takes back is refused after it.
	freshTime = 5 * time.Minute
	// staleTime is how much longer they are used while the issuer does not answer.
	staleTime = time.Hour
	// readPause is the least time from one read to the next, whatever is asked for,
	// and retryPause while there are no keys at all.
	readPause  = 10 * time.Second
	retryPause = 2 * time.Second
	// readTime bounds a read.
	readTime = 3 * time.Second
	// maxWaiting bounds the requests that wait for one.
	maxWaiting = 256
	// maxAbsent bounds the unknown keys that are remembered as such.
	maxAbsent = 1024
)

// ring is the keys of an issuer as they were read once.
type ring struct {
	keys map[string][]*key
	// began is when the read began: keys that are made later are not in it.
	began time.Time
}

// keySet is the keys of an issuer. They are read when a token first needs them,
// again when they are old or a token has another one, by one read for all who
// wait, and at most every 10 s.
type keySet struct {
	read func(context.Context) (map[string][]*key, error)
	now  atomic.Pointer[ring]

	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu sync.Mutex
	// current is closed when the read that is under way ends, next when the one that
	// has not begun does; nil for none.
	current, next chan struct{}
	timer         *time.Timer
	// pause is when the next read may begin at the earliest.
	pause   time.Time
	waiting int
	// failed says that the last read did.
	failed bool
	// absent are keys that now does not have and somebody waited for.
	absent map[string]bool
}

func newKeySet(read func(context.Context) (map[string][]*key, error)) *keySet {
	s := &keySet{read: read}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// close ends the reads.
func (s *keySet) close() {
	s.cancel()
	s.mu.Lock()
	if s.timer != nil && s.timer.Stop() {
		s.running.Done()
	}
	s.mu.Unlock()
	s.running.Wait()
}

// errNoKeys says that nothing is known of the token, not even that it is bad.
var errNoKeys = fault.New(fault.Unavailable, "the keys of the token's issuer cannot be had; try again shortly")

// find returns the keys of an id. The error is a *fault.Error.
func (s *keySet) find(ctx context.Context, kid string) ([]*key, error) {
	arrived := time.Now()
	for {
		r := s.now.Load()
		if r != nil && time.Since(r.began) >= freshTime+staleTime {
			r = nil
		}
		if r != nil {
			if found := r.keys[kid]; found != nil {
				if time.Since(r.began) >= freshTime {
					s.refresh()
				}
				return found, nil
			}
			if !r.began.Before(arrived) {
				s.lack(r, kid)
				return nil, bad("key is not the issuer's")
			}
		}
		ended, err := s.wait(r, kid)
		if err != nil {
			return nil, err
		}
		select {
		case <-ended:
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
		if after := s.now.Load(); after == nil || r != nil && after == r || time.Since(after.began) >= freshTime+staleTime {
			return nil, retryLater(retryPause) // the read failed
		}
	}
}

func retryLater(after time.Duration) error {
	e := *errNoKeys
	e.RetryAfter = after
	return &e
}

// refresh has the keys read again; nobody waits for it.
func (s *keySet) refresh() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil && !time.Now().Before(s.pause) {
		s.ask()
	}
}

// wait returns what is closed when the read that is under way ends, or else the
// next one. A key that others waited for in vain is not waited for again until
// then.
func (s *keySet) wait(have *ring, kid string) (<-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	waits := time.Until(s.pause) > 0 && s.current == nil
	switch {
	case waits && have != nil && s.absent[kid]:
		return nil, bad("key is not the issuer's")
	case waits && (s.failed || have == nil):
		return nil, retryLater(time.Until(s.pause))
	case s.waiting >= maxWaiting:
		return nil, retryLater(readPause)
	}
	if s.ctx.Err() != nil {
		return nil, errNoKeys
	}
	s.waiting++
	if s.current != nil {
		return s.current, nil
	}
	return s.ask(), nil
}

// lack notes that the newest keys do not have one.
func (s *keySet) lack(r *ring, kid string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now.Load() == r && len(s.absent) < maxAbsent {
		s.absent[kid] = true
	}
}

// ask has the keys read as soon as they may be.
func (s *keySet) ask() <-chan struct{} {
	if s.next == nil {
		s.next = make(chan struct{})
		if s.current == nil {
			s.schedule()
		}
	}
	return s.next
}

func (s *keySet) schedule() {
	if s.ctx.Err() != nil {
		return
	}
	s.running.Add(1)
	s.timer = time.AfterFunc(max(0, time.Until(s.pause)), s.reread)
}

func (s *keySet) reread() {
	defer s.running.Done()
	s.mu.Lock()
	s.current, s.next = s.next, nil
	s.timer = nil
	began := time.Now()
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(s.ctx, readTime)
	defer cancel()
	keys, err := s.read(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.now.Store(&ring{keys, began})
		s.absent = map[string]bool{}
	}
	s.failed = err != nil
	s.pause = began.Add(readPause)
	if s.now.Load() == nil {
		s.pause = time.Now().Add(retryPause)
	}
	close(s.current)
	s.current = nil
	if s.next != nil {
		s.schedule()
	}
}
