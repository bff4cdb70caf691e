// Package secret holds the secrets with which a program proves its identity on the bus, in one
// file: a seed that logs it in at NATS, and keys that seal requests.
//
// Edges have the master key of the bus. A service has a key that is derived from the master key and
// the service's name: it can check the seals of requests to it, and cannot seal requests for
// another service. Start reading at Secret and Dir.Issue.
package secret

import (
	"bytes"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/pem"
	"errors"
	"fmt"
	"os"

	"github.com/nats-io/nkeys"
)

// Key seals, or checks seals.
type Key [32]byte

// NewKey makes a master key.
func NewKey() (k Key) {
	_, _ = rand.Read(k[:]) // never fails
	return k
}

// For derives the key for one use of a master key, such as a service's requests.
func (k Key) For(use string) (derived Key) {
	raw, err := hkdf.Key(sha256.New, k[:], nil, "busbar/"+use, len(derived))
	if err != nil { // never: the length is valid
		panic(err)
	}
	copy(derived[:], raw)
	return derived
}

// ForService derives the key of a service.
func (k Key) ForService(service string) Key { return k.For("service/" + service) }

// Secret is the content of one file.
type Secret struct {
	// Seed of an nkey; nil for none.
	Seed []byte
	// Of is the owner of the keys: Edges, or a service.
	Of string
	// Keys: the first one seals, and all of them open, so that a key can be replaced while programs
	// are restarted. Without keys nothing is sealed.
	Keys []Key
}

// KeysFor are the keys of a service, as far as this secret has them.
func (s Secret) KeysFor(service string) (keys []Key) {
	switch s.Of {
	case service:
		return s.Keys
	case Edges:
		for _, k := range s.Keys {
			keys = append(keys, k.ForService(service))
		}
	}
	return keys
}

// Edges is the owner named in a file with the master key.
const Edges = "edge"

// NewSeed makes the seed of a user.
func NewSeed() ([]byte, error) {
	user, err := nkeys.CreateUser()
	if err != nil {
		return nil, err
	}
	return user.Seed()
}

// Public is the public key of the seed, by which NATS knows the user.
func (s Secret) Public() (string, error) {
	user, err := nkeys.FromSeed(s.Seed)
	if err != nil {
		return "", err
	}
	return user.PublicKey()
}

const (
	keyBlock = "BUSBAR KEY"
	ofHeader = "For"
)

// Parse reads a file: a seed, or the JWT and seed of a credentials file, and any number of keys.
// The error does not show the content.
func Parse(raw []byte) (Secret, error) {
	s := Secret{}
	begun := bytes.Count(raw, []byte("-----BEGIN "+keyBlock+"-----"))
	for rest := raw; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != keyBlock {
			continue
		}
		of := block.Headers[ofHeader]
		if len(block.Bytes) != len(Key{}) || of == "" || s.Of != "" && s.Of != of {
			return Secret{}, errors.New("a Busbar key in it is damaged, or two are for different services")
		}
		s.Of, s.Keys = of, append(s.Keys, Key(block.Bytes))
	}
	if len(s.Keys) != begun { // without a key nothing would be checked
		return Secret{}, errors.New("a Busbar key in it is damaged")
	}
	if user, err := nkeys.ParseDecoratedUserNKey(raw); err == nil {
		if s.Seed, err = user.Seed(); err != nil {
			return Secret{}, errors.New("the seed in it cannot be read")
		}
	}
	if s.Seed == nil && s.Keys == nil {
		return Secret{}, errors.New("it holds neither a seed of a NATS user nor a Busbar key")
	}
	return s, nil
}

// Read is Parse of a file.
func Read(path string) (Secret, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return Secret{}, err
	}
	s, err := Parse(raw)
	if err != nil {
		return s, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// Encode returns the content of the file. The tools of NATS can read the seed from it too.
func (s Secret) Encode() []byte {
	raw := fmt.Appendf(nil, "-----BEGIN USER NKEY SEED-----\n%s\n------END USER NKEY SEED------\n", s.Seed)
	for _, k := range s.Keys {
		raw = append(raw, pem.EncodeToMemory(&pem.Block{Type: keyBlock, Headers: map[string]string{ofHeader: s.Of}, Bytes: k[:]})...)
	}
	return raw
}
