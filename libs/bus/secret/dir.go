package secret

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Dir is a directory with the secrets of a bus, one file for each user, readable only by its owner.
// Existing files are kept, so users can be added.
type Dir string

// Path is the path of a user's secret.
func (d Dir) Path(user string) string { return filepath.Join(string(d), user+".secret") }

// oldPath is the path of a user's previous secret.
func (d Dir) oldPath(user string) string { return filepath.Join(string(d), user+".old") }

const (
	// Operators have no key: they seal nothing, and nothing is sealed for them.
	operators = "operator"
	// The developer's services may have any name, so they have the master key.
	developer = "developer"
)

// Issue creates the missing secrets of the edges, the operators and each service, and new ones for
// the users in renew. The previous secret is kept, and stays valid until its file is removed and
// Issue is called again.
func (d Dir) Issue(services []string, renew ...string) error {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return err
	}
	users := append([]string{Edges, operators}, services...)
	// Everything is checked before any file is moved: a user without a secret could not connect
	// again.
	renew = slices.Compact(slices.Sorted(slices.Values(renew)))
	for _, user := range renew {
		if !slices.Contains(users, user) {
			return fmt.Errorf("there is no user %s to renew; nothing was changed", user)
		}
		if _, err := os.Stat(d.oldPath(user)); err == nil {
			return fmt.Errorf("%s: the secret before the last one is still good; remove that file once no program uses it", d.oldPath(user))
		}
		if _, err := os.Stat(d.Path(user)); err != nil {
			return fmt.Errorf("user %s has no secret to renew; nothing was changed: %w", user, err)
		}
	}
	for _, user := range renew {
		if err := os.Rename(d.Path(user), d.oldPath(user)); err != nil {
			return err
		}
	}
	masters, err := d.issue(Edges, func(s *Secret) { s.Of, s.Keys = Edges, []Key{NewKey()} })
	if err != nil {
		return err
	}
	keys := masters.Keys
	if old, err := Read(d.oldPath(Edges)); err == nil {
		keys = append(keys, old.Keys...)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, err := d.issue(operators, func(*Secret) {}); err != nil {
		return err
	}
	for _, service := range services {
		if err := d.issueService(service, keys); err != nil {
			return err
		}
	}
	return nil
}

func (d Dir) issueService(service string, masters []Key) error {
	of, keys := service, Secret{Of: Edges, Keys: masters}.KeysFor(service)
	if service == developer {
		of, keys = Edges, masters
	}
	s, err := d.issue(service, func(s *Secret) { s.Of, s.Keys = of, keys })
	if err != nil || s.Of == of && slices.Equal(s.Keys, keys) {
		return err
	}
	s.Of, s.Keys = of, keys
	return d.write(service, s, os.Rename)
}

// issue returns the secret of a user, and creates it if it is missing.
func (d Dir) issue(user string, fill func(*Secret)) (Secret, error) {
	s, err := d.Read(user)
	if !errors.Is(err, fs.ErrNotExist) {
		return s, err
	}
	if s.Seed, err = NewSeed(); err != nil {
		return s, err
	}
	fill(&s)
	// The first process wins: another one may do the same.
	if err := d.write(user, s, os.Link); err != nil && !errors.Is(err, fs.ErrExist) {
		return s, err
	}
	return d.Read(user)
}

func (d Dir) write(user string, s Secret, put func(from, to string) error) error {
	tmp, err := os.CreateTemp(string(d), ".new-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(tmp.Name()) }()
	_, err = tmp.Write(s.Encode())
	if err := errors.Join(err, tmp.Close()); err != nil {
		return err
	}
	return put(tmp.Name(), d.Path(user))
}

// Read returns the secret of a user.
func (d Dir) Read(user string) (Secret, error) { return Read(d.Path(user)) }

// NKeys are the public keys by which NATS knows a user: two while the previous secret is still
// valid.
func (d Dir) NKeys(user string) (all []string, err error) {
	for _, path := range []string{d.Path(user), d.oldPath(user)} {
		s, err := Read(path)
		if errors.Is(err, fs.ErrNotExist) && path == d.oldPath(user) {
			continue
		}
		if err != nil {
			return nil, err
		}
		key, err := s.Public()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, key)
	}
	return all, nil
}
