package store

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// APIKey is what is kept of an API key: everything but its secret.
type APIKey struct {
	// ID is the part of the key that may be seen.
	ID string `json:"-"`
	// Name is the key's name for people, Principal the principal that it stands for.
	Name      string `json:"name"`
	Principal string `json:"principal"`
	// Hash is the SHA-256 of the whole key. The secret is random, so a slower hash is not needed.
	Hash    []byte    `json:"hash"`
	Created time.Time `json:"created"`
	// Expires is zero for a key that does not expire.
	Expires time.Time `json:"expires,omitzero"`
}

const (
	apiKeyPrefix = "bb_"
	apiKeyID     = 8
	apiKeySecret = 32 // base32: 160 bits
)

var apiKeyLetters = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// IsAPIKey reports whether a credential has the form of an API key, valid or not.
func IsAPIKey(s string) bool { return strings.HasPrefix(s, apiKeyPrefix) }

// APIKeyID is the part of a key that may be seen; false if the text is not a key.
func APIKeyID(key string) (id string, ok bool) {
	id, secret, ok := strings.Cut(strings.TrimPrefix(key, apiKeyPrefix), "_")
	return id, ok && IsAPIKey(key) && len(id) == apiKeyID && len(secret) == apiKeySecret
}

// APIKeys are the API keys of a bus.
type APIKeys struct{ bucket *bus.Bucket }

// NewAPIKeys opens the store.
func NewAPIKeys(conn *bus.Conn) *APIKeys { return &APIKeys{conn.Bucket(bus.AccessBucket)} }

const (
	apiKeyRoom  = "key."
	apiUsedRoom = "used."
)

// Create makes a key for a principal and returns the whole key, which cannot be seen again. A
// name that is taken is refused.
func (s *APIKeys) Create(ctx context.Context, name, principal string, expires time.Time) (string, error) {
	all, err := s.All(ctx)
	if err != nil {
		return "", err
	}
	if slices.ContainsFunc(all, func(k APIKey) bool { return k.Name == name }) {
		return "", fault.New(fault.Conflict, "there is a key %q already; revoke it, or choose another name", name)
	}
	random := make([]byte, 5+20)
	_, _ = rand.Read(random) // never fails
	text := apiKeyLetters.EncodeToString(random)
	k := APIKey{ID: text[:apiKeyID], Name: name, Principal: principal, Created: time.Now().UTC().Truncate(time.Second), Expires: expires}
	whole := apiKeyPrefix + k.ID + "_" + text[apiKeyID:]
	sum := sha256.Sum256([]byte(whole))
	k.Hash = sum[:]
	raw, err := json.Marshal(k)
	if err != nil {
		return "", err
	}
	first, err := s.bucket.Create(ctx, apiKeyRoom+k.ID, raw)
	if err == nil && !first {
		return "", fault.New(fault.Conflict, "a key of the same id was made just now; try again")
	}
	return whole, err
}

// All returns all keys, the oldest first. Malformed ones are left out.
func (s *APIKeys) All(ctx context.Context) ([]APIKey, error) {
	var all []APIKey
	err := s.bucket.All(ctx, func(key string, value []byte) {
		if id, ok := strings.CutPrefix(key, apiKeyRoom); ok {
			if k := readAPIKey(id, value); k != nil {
				all = append(all, *k)
			}
		}
	})
	slices.SortFunc(all, func(a, b APIKey) int { return a.Created.Compare(b.Created) })
	return all, err
}

func readAPIKey(id string, raw []byte) *APIKey {
	k := &APIKey{ID: id}
	if json.Unmarshal(raw, k) != nil || len(k.Hash) != sha256.Size || k.Principal == "" || len(id) != apiKeyID {
		return nil
	}
	return k
}

// Has reports whether a key with an id exists.
func (s *APIKeys) Has(ctx context.Context, id string) (bool, error) {
	_, revision, err := s.bucket.Look(ctx, apiKeyRoom+id)
	return revision > 0, err
}

// LastUsed returns when each key was used last, by id, to within a minute.
func (s *APIKeys) LastUsed(ctx context.Context) (map[string]time.Time, error) {
	all := map[string]time.Time{}
	err := s.bucket.All(ctx, func(key string, value []byte) {
		if id, ok := strings.CutPrefix(key, apiUsedRoom); ok {
			if t, err := time.Parse(time.RFC3339, string(value)); err == nil {
				all[id] = t
			}
		}
	})
	return all, err
}

// Use notes that a key is in use.
func (s *APIKeys) Use(ctx context.Context, id string, at time.Time) error {
	return s.bucket.Put(ctx, apiUsedRoom+id, []byte(at.UTC().Format(time.RFC3339)))
}

// Revoke ends a key, at every edge.
func (s *APIKeys) Revoke(ctx context.Context, id string) error {
	return errors.Join(s.bucket.Delete(ctx, apiKeyRoom+id), s.bucket.Delete(ctx, apiUsedRoom+id))
}

// OnChange calls f with each key that is made from now on, and with the id alone of each key that
// is revoked. f must not block.
func (s *APIKeys) OnChange(f func(id string, k *APIKey)) (stop func(), err error) {
	return s.bucket.OnValue(apiKeyRoom+"*", func(key string, value []byte) {
		id := strings.TrimPrefix(key, apiKeyRoom)
		if value == nil {
			f(id, nil)
			return
		}
		f(id, readAPIKey(id, value))
	})
}
