package root

import (
	"errors"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/busbar-mcp/busbar/libs/service"
)

// Hint says how to configure a root.
const Hint = "start the service with --workspace-root main=/srv/code, or set BUSBAR_WORKSPACE_ROOTS=main=/srv/code,docs=/srv/docs"

// Scheme begins the URIs of places.
const Scheme = "workspace://"

// View is the set of directories that one call may use.
type View struct {
	roots  []*Root
	grants []grant
}

// grant is a directory of a root with everything below it.
type grant struct {
	*Root
	// at is its path in the root; "." for all of it.
	at string
	fs *os.Root
}

// Place is a path in a root. It need not exist.
type Place struct {
	*Root
	// FS is the directory that must not be left. Path is the clean path in it,
	// "." for FS itself.
	FS   *os.Root
	Path string
	// At is the path of FS in the root.
	At string
}

// Full returns the path from the root.
func (p Place) Full() string { return path.Join(p.At, p.Path) }

// String returns the path as callers write and receive it: with the root's name. Bytes that are not UTF-8,
// which callers cannot write, become U+FFFD.
func (p Place) String() string {
	return strings.ToValidUTF8(path.Join(p.Name, p.At, p.Path), "\uFFFD")
}

// URI returns the URI of the place as a resource.
func (p Place) URI() string { return URI(p.Name, p.Full()) }

// URI returns the URI of a path in a root.
func URI(name, full string) string {
	if full == "." {
		full = ""
	}
	u := url.URL{Path: "/" + full}
	return Scheme + name + u.EscapedPath()
}

// In returns a place below this one.
func (p Place) In(rel string) Place {
	p.Path = path.Join(p.Path, rel)
	return p
}

// View returns the directories that a tenant's call may use. client lists the URIs of the roots that the
// client declares; they narrow the view. A client that declares none sees everything. Close the view after
// use.
func (rs *Roots) View(tenant string, client []string) (*View, error) {
	v := &View{roots: rs.ForTenant(tenant)}
	switch {
	case len(rs.all) == 0:
		return nil, service.Errorf("no workspace root is configured; %s", Hint)
	case len(v.roots) == 0:
		return nil, service.Errorf("no workspace root is open to your tenant; ask the operator to add TENANT/NAME=DIR to BUSBAR_WORKSPACE_ROOTS")
	case len(client) == 0:
		for _, r := range v.roots {
			v.grants = append(v.grants, grant{r, ".", r.FS})
		}
		return v, nil
	}
	for _, r := range v.roots {
		for _, uri := range client[:min(len(client), maxClientRoots)] {
			v.grant(r, uri)
		}
	}
	return v, nil
}

// maxClientRoots is how many roots of a client count.
//
//limit:files roots that a client sends | further ones are ignored
const maxClientRoots = 100

// grant opens the part of a configured root that a client's root covers. A missing path, or one that is
// not a directory, opens nothing; nor does a link, which would give a guarded directory another name.
func (v *View) grant(r *Root, uri string) {
	at, ok := r.locate(uri)
	if !ok || slices.ContainsFunc(v.grants, func(g grant) bool { return g.Root == r && g.at == at }) {
		return
	}
	if at == "." {
		v.grants = append(v.grants, grant{r, at, r.FS})
		return
	}
	dir, name, err := Parent(r.FS, at, false)
	if err != nil {
		return
	}
	defer func() { _ = dir.Close() }()
	if fs, err := into(dir, name, false); err == nil {
		v.grants = append(v.grants, grant{r, at, fs})
	}
}

// locate returns the path in the root of a client root's URI; "." if the client's root contains the root.
func (r *Root) locate(uri string) (at string, ok bool) {
	u, err := url.Parse(uri)
	if err != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", false
	}
	p, err := clean(u.Path)
	if err != nil {
		return "", false
	}
	switch {
	case u.Scheme == "workspace" && u.Host == r.Name:
		return below("/", path.Join("/", p))
	case u.Scheme == "file" && (u.Host == "" || u.Host == "localhost") && path.IsAbs(p):
		for _, dir := range r.dirs {
			if at, ok := below(dir, p); ok {
				return at, true
			}
			if _, ok := below(p, dir); ok {
				return ".", true
			}
		}
	}
	return "", false
}

// Close closes the directories that View opened.
func (v *View) Close() {
	for _, g := range v.grants {
		if g.at != "." {
			_ = g.fs.Close()
		}
	}
}

// Places returns the directories of the view.
func (v *View) Places() []Place {
	out := make([]Place, len(v.grants))
	for i, g := range v.grants {
		out[i] = Place{Root: g.Root, FS: g.fs, Path: ".", At: g.at}
	}
	return out
}

// Find turns a path into a place. The path begins with a root's name, is relative to the only root, or is
// absolute and in the directory of a root.
func (v *View) Find(p string) (Place, error) {
	rel, err := clean(p)
	if err != nil {
		return Place{}, err
	}
	r, full, err := v.root(rel)
	if err != nil {
		return Place{}, err
	}
	for _, g := range v.grants {
		if in, ok := below(g.at, full); ok && g.Root == r {
			return Place{Root: r, FS: g.fs, Path: in, At: g.at}, nil
		}
	}
	if len(v.grants) == 0 {
		return Place{}, service.Errorf("your client's roots are outside of every workspace root (%s); change them in the client", v.names())
	}
	return Place{}, service.Errorf("the path is outside of your client's roots; choose another path, or change the roots in the client")
}

func (v *View) root(p string) (*Root, string, error) {
	if path.IsAbs(p) {
		for _, r := range v.roots {
			for _, dir := range r.dirs {
				if in, ok := below(dir, p); ok {
					return r, in, nil
				}
			}
		}
		return nil, "", service.Errorf("the path is not in a workspace root; begin it with the name of one: %s", v.names())
	}
	first, rest, _ := strings.Cut(p, "/")
	for _, r := range v.roots {
		if r.Name == first {
			return r, path.Clean(rest), nil
		}
	}
	if len(v.roots) == 1 {
		return v.roots[0], p, nil
	}
	return nil, "", service.Errorf("there are several workspace roots; begin the path with the name of one: %s", v.names())
}

// FindURI turns a resource's URI into a place.
func (v *View) FindURI(uri string) (Place, error) {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "workspace" || u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.HasSuffix(uri, "#") ||
		strings.Contains(strings.ToLower(u.EscapedPath()), "%2f") {
		return Place{}, service.Errorf("the URI is not valid; write %sROOT/path/to/file", Scheme)
	}
	for _, r := range v.roots {
		if r.Name == u.Host {
			return v.Find(u.Host + "/" + strings.TrimPrefix(u.Path, "/"))
		}
	}
	return Place{}, errors.Join(service.Errorf("there is no workspace root of that name; use one of %s", v.names()), os.ErrNotExist)
}

func (v *View) names() string {
	var all []string
	for _, r := range v.roots {
		all = append(all, r.Name)
	}
	return strings.Join(all, ", ")
}

// Inside returns an absolute path of this machine as a path in FS; false if it is not in FS.
func (p Place) Inside(abs string) (string, bool) {
	for _, dir := range p.dirs {
		if full, ok := below(dir, path.Clean(abs)); ok {
			return below(p.At, full)
		}
	}
	return "", false
}

// Below returns another place relative to this one; false if it is not below.
func (p Place) Below(other Place) (string, bool) {
	if p.Root != other.Root || p.FS != other.FS {
		return "", false
	}
	return below(p.Path, other.Path)
}
