// Package root decides which directories the tools may use for which tenant, and turns the path of a
// caller into a place in one of them. Every access to a place goes through an os.Root, which no path, link
// or race can leave. Start at Roots and View.
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

// Root is an open directory with a name.
type Root struct {
	// Tenant owns the root; empty if every tenant may use it.
	Tenant, Name string
	// FS is the open directory.
	FS *os.Root
	// dirs are the directory's paths: without links, and as configured.
	dirs []string
	// turn holds a value while nobody writes.
	turn chan struct{}
}

// Roots are all configured roots, ordered by tenant and name.
type Roots struct{ all []*Root }

var (
	nameGrammar   = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$`)
	tenantGrammar = regexp.MustCompile(`^[^/=,]{1,128}$`)
)

// Open opens directories, each written NAME=DIR, or TENANT/NAME=DIR for one tenant only. Close them after
// use.
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
		return errors.New("it is not valid; write NAME=DIR, such as main=/srv/code, or TENANT/NAME=DIR, with letters, digits, _, - and dots in a name")
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
		return errors.New("the whole file system cannot be a workspace; name a directory in it")
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

// beside checks that two roots can be open together: a path is unambiguous for everyone who sees both, and
// nobody reaches a tenant's root through another root.
func (r *Root) beside(other *Root) error {
	_, in := below(other.dirs[0], r.dirs[0])
	_, around := below(r.dirs[0], other.dirs[0])
	switch {
	case r.Name == other.Name && (r.Tenant == other.Tenant || r.Tenant == "" || other.Tenant == ""):
		return errors.New("a caller of this root would see two roots of the same name; choose another name")
	case r.Tenant != other.Tenant && (in || around):
		return fmt.Errorf("it shares directories with root %s, which other callers see; use separate directories", other.Name)
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

// All returns all roots.
func (rs *Roots) All() []*Root { return rs.all }

// ForTenant returns the roots that a tenant sees.
func (rs *Roots) ForTenant(tenant string) []*Root {
	var seen []*Root
	for _, r := range rs.all {
		if r.Tenant == "" || r.Tenant == tenant {
			seen = append(seen, r)
		}
	}
	return seen
}

// Dir returns the path of the directory. It must not appear in an answer to a caller.
func (r *Root) Dir() string { return filepath.FromSlash(r.dirs[0]) }

// InPlace returns an error if the directory's path no longer leads to the directory, for example because
// of a link: a root inside another one can be moved together with it.
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
	return service.Errorf("root %s was moved after the service started; nothing ran; ask the operator to move it back or to restart the service", r.Name)
}

// Lock waits for the right to change something below the root. Only one change runs at a time, whichever
// process of this machine makes it. Call unlock afterwards.
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
