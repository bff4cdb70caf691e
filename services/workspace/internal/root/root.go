// Package root knows the directories that are open to the tools, and to whom: it
// makes a place in one of them of the path that a caller writes. Everything that
// is done at a place goes through an os.Root, which no path, link or race leaves.
package root

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/busbar-mcp/busbar/libs/service"
)

// Root is a directory that is open, under a name.
type Root struct {
	// Tenant is whose root it is; empty: everybody's.
	Tenant, Name string
	// FS is the directory.
	FS *os.Root
	// dirs are where the directory is: without links, and as it was configured.
	dirs []string
	// turn has a value while nobody writes.
	turn chan struct{}
}

// Roots are all that are configured, in the order of tenants and names.
type Roots struct{ all []*Root }

var (
	nameGrammar   = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$`)
	tenantGrammar = regexp.MustCompile(`^[^/=,]{1,128}$`)
)

// Open opens directories, each written NAME=DIR, or TENANT/NAME=DIR for one that
// is a tenant's alone. Close them.
func Open(settings []string) (*Roots, error) {
	rs := &Roots{}
	for _, s := range settings {
		if strings.TrimSpace(s) == "" {
			continue
		}
		if err := rs.open(strings.TrimSpace(s)); err != nil {
			return nil, errors.Join(fmt.Errorf("workspace root %q: %w", s, err), rs.Close())
		}
	}
	slices.SortFunc(rs.all, func(a, b *Root) int { return strings.Compare(a.Tenant+"/"+a.Name, b.Tenant+"/"+b.Name) })
	return rs, nil
}

func (rs *Roots) open(setting string) error {
	name, dir, ok := strings.Cut(setting, "=")
	tenant, rest, limited := strings.Cut(name, "/")
	if limited {
		name = rest
	} else {
		tenant = ""
	}
	if !ok || dir == "" || !nameGrammar.MatchString(name) || limited && !tenantGrammar.MatchString(tenant) {
		return errors.New("write NAME=DIR, such as main=/srv/code, or TENANT/NAME=DIR; a name is letters, digits, _, - and dots")
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	real, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return err
	}
	if real == filepath.Dir(real) {
		return errors.New("the whole file system is no workspace: name a directory in it")
	}
	r := &Root{Tenant: tenant, Name: name, dirs: []string{filepath.ToSlash(real), filepath.ToSlash(abs)}, turn: make(chan struct{}, 1)}
	for _, other := range rs.all {
		if err := r.beside(other); err != nil {
			return err
		}
	}
	if r.FS, err = os.OpenRoot(real); err != nil {
		return err
	}
	r.turn <- struct{}{}
	rs.all = append(rs.all, r)
	return nil
}

// beside checks that two roots can be open together: who sees both knows which one
// a path means, and nobody reaches a tenant's root through another's.
func (r *Root) beside(other *Root) error {
	_, in := below(other.dirs[0], r.dirs[0])
	_, around := below(r.dirs[0], other.dirs[0])
	switch {
	case r.Name == other.Name && (r.Tenant == other.Tenant || r.Tenant == "" || other.Tenant == ""):
		return errors.New("who sees this root has another of the same name")
	case r.Tenant != other.Tenant && (in || around):
		return fmt.Errorf("it and root %s, which others see, have directories in common", other.Name)
	}
	return nil
}

// Close closes the directories.
func (rs *Roots) Close() error {
	var all error
	for _, r := range rs.all {
		all = errors.Join(all, r.FS.Close())
	}
	return all
}

// All are the roots of everybody.
func (rs *Roots) All() []*Root { return rs.all }

// Of are the roots that a tenant sees.
func (rs *Roots) Of(tenant string) []*Root {
	var seen []*Root
	for _, r := range rs.all {
		if r.Tenant == "" || r.Tenant == tenant {
			seen = append(seen, r)
		}
	}
	return seen
}

// Dir is where the directory is. No answer to a caller says it.
func (r *Root) Dir() string { return filepath.FromSlash(r.dirs[0]) }

// InPlace says whether what is where the directory was is still the directory, and no link
// to another: a root that lies in another one can be moved with what it is in.
func (r *Root) InPlace() error {
	open, err := r.FS.Stat(".")
	if err != nil {
		return err
	}
	real, err := filepath.EvalSymlinks(r.Dir())
	if err == nil && real == r.Dir() {
		if there, err := os.Stat(real); err == nil && os.SameFile(open, there) {
			return nil
		}
	}
	return service.Errorf("root %s is not where it was when the service started: nothing ran; its operator moves it back, or starts the service again", r.Name)
}

// Lock waits for the turn to change something below the root: one change at a
// time, whichever process of this machine makes it. Call unlock.
func (r *Root) Lock(ctx context.Context) (unlock func(), err error) {
	select {
	case <-r.turn:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	release, err := r.lockProcesses(ctx)
	if err != nil {
		r.turn <- struct{}{}
		return nil, err
	}
	return func() {
		release()
		r.turn <- struct{}{}
	}, nil
}
