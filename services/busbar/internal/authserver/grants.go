package authserver

import (
	"crypto/rand"
	"crypto/subtle"
	"strings"
	"sync"
	"time"
)

const (
	// codeTime is how long a code may be exchanged, familyTime how long a login can be
	// renewed.
	codeTime   = time.Minute
	familyTime = 12 * time.Hour
	// maxHeld is how many codes, and how many renewable logins, are kept for one user. The
	// oldest are dropped.
	maxHeld = 64
)

// grant is a user's consent.
type grant struct {
	User, Client, Resource string
	Scopes                 []string
}

// code is a grant that the client may exchange once.
type code struct {
	grant
	redirect, challenge string
	refresh             bool
	// taken is set by the first attempt to exchange it, stolen by any other.
	taken, stolen bool
	// family is the login that the code was exchanged for; empty if none.
	family string
}

// family is a renewable login: only its last refresh token is valid.
type family struct {
	grant
	current string
}

// grants holds the codes and the logins, by the digest of their secret.
type grants struct {
	mu       sync.Mutex
	codes    shelf[*code]
	families shelf[*family]
}

func newGrants() *grants {
	return &grants{codes: newShelf[*code](), families: newShelf[*family]()}
}

// issue makes a code.
func (g *grants) issue(c *code, now time.Time) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	secret := rand.Text()
	g.codes.put(c.User, digest(secret), c, now.Add(codeTime), now)
	return secret
}

// take exchanges a code, once: any attempt ends it. A second attempt means that two clients have the code,
// so the tokens of the first are revoked.
func (g *grants) take(secret string, now time.Time) (*code, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c, ok := g.codes.get(digest(secret), now)
	if !ok {
		return nil, false
	}
	if c.taken {
		c.stolen = true
		g.families.remove(c.family)
		return nil, false
	}
	c.taken = true
	return c, true
}

// begin makes the first refresh token of a login; empty if its code was used again meanwhile.
func (g *grants) begin(c *code, now time.Time) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.stolen {
		return ""
	}
	id, secret := rand.Text(), rand.Text()
	c.family = digest(id)
	g.families.put(c.User, c.family, &family{grant: c.grant, current: digest(secret)}, now.Add(familyTime), now)
	return id + "." + secret
}

// renew replaces a refresh token of a client. If the token was already replaced, two clients have it, so
// the login ends. check reports whether the grant still covers the request.
func (g *grants) renew(token, client string, now time.Time, check func(grant) *failure) (grant, string, *failure) {
	g.mu.Lock()
	defer g.mu.Unlock()
	id, secret, _ := strings.Cut(token, ".")
	f, ok := g.families.get(digest(id), now)
	switch {
	case !ok:
		return grant{}, "", fail("invalid_grant", "the refresh token is unknown, expired or revoked; log in again")
	case subtle.ConstantTimeCompare([]byte(f.current), []byte(digest(secret))) != 1:
		g.families.remove(digest(id))
		return grant{}, "", fail("invalid_grant", "the refresh token was used before, so its login was revoked; log in again")
	case f.Client != client:
		g.families.remove(digest(id))
		return grant{}, "", fail("invalid_grant", "the refresh token belongs to another client, so its login was revoked; log in again")
	}
	if wrong := check(f.grant); wrong != nil {
		return grant{}, "", wrong
	}
	next := rand.Text()
	f.current = digest(next)
	return f.grant, id + "." + next, nil
}

// shelf keeps values for a time, for each owner the newest ones.
type shelf[T any] struct {
	all map[string]kept[T]
	// of holds the keys of each owner, oldest first.
	of map[string][]string
}

type kept[T any] struct {
	thing T
	until time.Time
}

func newShelf[T any]() shelf[T] { return shelf[T]{map[string]kept[T]{}, map[string][]string{}} }

func (s *shelf[T]) put(owner, key string, thing T, until, now time.Time) {
	var keys []string
	for _, k := range s.of[owner] {
		if _, ok := s.get(k, now); ok {
			keys = append(keys, k)
		}
	}
	if len(keys) >= maxHeld {
		delete(s.all, keys[0])
		keys = keys[1:]
	}
	s.all[key] = kept[T]{thing, until}
	s.of[owner] = append(keys, key)
}

func (s *shelf[T]) get(key string, now time.Time) (thing T, ok bool) {
	k, ok := s.all[key]
	if ok && !now.Before(k.until) {
		delete(s.all, key)
		return thing, false
	}
	return k.thing, ok
}

func (s *shelf[T]) remove(key string) { delete(s.all, key) }
