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

// Scheme is what URIs of places begin with.
const Scheme = "workspace://"

// View is what one call may reach.
type View struct {
	roots  []*Root
	grants []grant
}

// grant is a directory of a root, with all below.
type grant struct {
	*Root
	// at is where in the root it is; "." for all of it.
	at string
	fs *os.Root
}

// Place is a path in a root, whether or not something is there.
type Place struct {
	*Root
	// FS is the directory that must not be left, and Path is the path in it, clean,
	// with "." for FS itself.
	FS   *os.Root
	Path string
	// At is where in the root FS is.
	At string
}

// Full is the path from the root.
func (p Place) Full() string { return path.Join(p.At, p.Path) }

// String is the path as callers write it, and get it: with the root's name. What is
// not UTF-8 in a name, which no caller can write, is shown as U+FFFD.
func (p Place) String() string {
	return strings.ToValidUTF8(path.Join(p.Name, p.At, p.Path), "\uFFFD")
}

// URI is that of the place as a resource.
func (p Place) URI() string { return URI(p.Name, p.Full()) }

// URI is that of a path in a root.
func URI(name, full string) string {
	if full == "." {
		full = ""
	}
	u := url.URL{Path: "/" + full}
	return Scheme + name + u.EscapedPath()
}

// In is a place below this one.
func (p Place) In(rel string) Place {
	p.Path = path.Join(p.Path, rel)
	return p
}

// View is what a tenant's calls may reach. client are the roots that the client
// says it works in, as URIs; what they leave of a root is all that can be reached.
// A client that says none leaves everything. Close it.
func (rs *Roots) View(tenant string, client []string) (*View, error) {
	v := &View{roots: rs.Of(tenant)}
	switch {
	case len(rs.all) == 0:
		return nil, service.Errorf("no workspace root is configured: %s", Hint)
	case len(v.roots) == 0:
		return nil, service.Errorf("no workspace root is open to your tenant: its operator adds TENANT/NAME=DIR to BUSBAR_WORKSPACE_ROOTS")
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

// maxClientRoots is the most roots of a client that count.
const maxClientRoots = 100

// grant opens what a client's root leaves of a configured one. What is not there, or
// is no directory, leaves nothing; nor does a link, which would give a guarded
// directory another name.
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

// locate is where in the root a URI of a client's root is; "." if the root is in it.
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

// Close closes what View opened.
func (v *View) Close() {
	for _, g := range v.grants {
		if g.at != "." {
			_ = g.fs.Close()
		}
	}
}

// Places are the directories that can be reached.
func (v *View) Places() []Place {
	out := make([]Place, len(v.grants))
	for i, g := range v.grants {
		out[i] = Place{Root: g.Root, FS: g.fs, Path: ".", At: g.at}
	}
	return out
}

// Find makes a place of a path: one that begins with a root's name, or is relative
// to the only root, or is absolute and in the directory of a root.
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
		return Place{}, service.Errorf("none of the roots that your client works in is in a workspace root (%s)", v.names())
	}
	return Place{}, service.Errorf("the path is outside of the roots that your client works in")
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
		return nil, "", service.Errorf("the path is in no workspace root: begin it with the name of one, %s", v.names())
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
	return nil, "", service.Errorf("there are several workspace roots: begin the path with the name of one, %s", v.names())
}

// FindURI makes a place of a resource's URI.
func (v *View) FindURI(uri string) (Place, error) {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "workspace" || u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.HasSuffix(uri, "#") ||
		strings.Contains(strings.ToLower(u.EscapedPath()), "%2f") {
		return Place{}, service.Errorf("a file is named %sROOT/path/to/it", Scheme)
	}
	for _, r := range v.roots {
		if r.Name == u.Host {
			return v.Find(u.Host + "/" + strings.TrimPrefix(u.Path, "/"))
		}
	}
	return Place{}, errors.Join(service.Errorf("there is no workspace root of that name: %s", v.names()), os.ErrNotExist)
}

func (v *View) names() string {
	var all []string
	for _, r := range v.roots {
		all = append(all, r.Name)
	}
	return strings.Join(all, ", ")
}

// Inside is an absolute path of this machine as a path in FS, if it is in there.
func (p Place) Inside(abs string) (string, bool) {
	for _, dir := range p.dirs {
		if full, ok := below(dir, path.Clean(abs)); ok {
			return below(p.At, full)
		}
	}
	return "", false
}

// Below is another place seen from this one, if it is in there.
func (p Place) Below(other Place) (string, bool) {
	if p.Root != other.Root || p.FS != other.FS {
		return "", false
	}
	return below(p.Path, other.Path)
}
