package repo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/format/index"

	"github.com/busbar-mcp/busbar/services/workspace/internal/file"
	"github.com/busbar-mcp/busbar/services/workspace/internal/root"
)

// States of a changed file.
const (
	added     = "added"
	modified  = "modified"
	deleted   = "deleted"
	untracked = "untracked"
	unmerged  = "unmerged"
)

// scope is the part of the tree to compare: paths with everything below them, and the directories that
// lead there.
type scope struct{ in, way map[string]bool }

func scopeOf(paths ...string) scope {
	s := scope{map[string]bool{}, map[string]bool{}}
	for _, p := range paths {
		s.in[p] = true
		for p != "." {
			p = path.Dir(p)
			s.way[p] = true
		}
	}
	return s
}

func (s scope) has(p string) bool {
	for !s.in[p] {
		if p == "." {
			return false
		}
		p = path.Dir(p)
	}
	return true
}

func (s scope) reaches(p string) bool { return s.way[p] || s.has(p) }

// staged is the index of a repository, by path.
type staged struct {
	*index.Index
	paths map[string]*index.Entry
	// dirs holds the directories with entries; open the unmerged paths.
	dirs, open map[string]bool
}

// index reads the index, once for each call.
func (r *Repo) index() (*staged, error) {
	if r.staged != nil {
		return r.staged, nil
	}
	read, err := r.git.Storer.Index()
	if err != nil {
		return nil, err
	}
	s := &staged{read, make(map[string]*index.Entry, len(read.Entries)), map[string]bool{}, map[string]bool{}}
	for _, e := range read.Entries {
		if !leadsDown(e.Name) {
			return nil, errIndex
		}
		s.paths[e.Name] = e
		if e.Stage != 0 {
			s.open[e.Name] = true
		}
		for dir := path.Dir(e.Name); dir != "." && !s.dirs[dir]; dir = path.Dir(dir) {
			s.dirs[dir] = true
		}
	}
	r.staged = s
	return s, nil
}

// content returns the entry of a path; nil without an entry, or with only an intent to add.
func (s *staged) content(p string) *index.Entry {
	if e := s.paths[p]; e != nil && !e.IntentToAdd {
		return e
	}
	return nil
}

// save writes the index from its paths. It refuses an index with an open merge, because paths holds only
// one side of each path.
func (r *Repo) save(s *staged) error {
	if err := r.smudge(s); err != nil {
		return err
	}
	s.Entries = s.Entries[:0]
	for _, e := range s.paths {
		if e.Stage != 0 {
			return refuse("%s is not merged; nothing was staged; stage all such files in one call, or ask a person to end the merge", r.Place(e.Name))
		}
		s.Entries = append(s.Entries, e)
	}
	r.staged = nil // its time and its directories have changed
	return r.git.Storer.SetIndex(s.Index)
}

// smudge sets the size of some entries to zero: of files that changed in the moment in which the index was
// last written. Such a file has the times of its entry, and the new index is younger, so a change would
// not be noticed. Git does the same; like git, same reads a file without a size.
func (r *Repo) smudge(s *staged) error {
	c := comparison{staged: s, ctx: r.store.ctx}
	for _, e := range s.Entries {
		if s.paths[e.Name] != e || e.ModifiedAt.Before(s.ModTime) || e.Mode == filemode.Submodule {
			continue
		}
		at := r.Place(e.Name)
		info, err := at.FS.Lstat(at.Path)
		if err != nil || !unchanged(info, e) {
			continue // its times show the change
		}
		same, err := c.same(at, info, e)
		if err != nil {
			return err
		}
		if !same {
			e.Size = 0
		}
	}
	return nil
}

// comparison finds the differences between a commit, the index and the files.
type comparison struct {
	*staged
	ctx    context.Context
	store  *bounded
	scope  scope
	seen   map[string]bool
	found  map[string]Change
	length int
}

// changes returns the files below some paths that differ from the index, or whose index entry differs from
// the commit, ordered by path relative to the top. The work is in proportion to the directories and files;
// content is read only if the index does not show that it is unchanged.
func (r *Repo) changes(below ...string) ([]Change, error) {
	all, err := r.compare(scopeOf(below...))
	return all, explain(err)
}

func (r *Repo) compare(in scope) ([]Change, error) {
	s, err := r.index()
	if err != nil {
		return nil, err
	}
	c := &comparison{staged: s, ctx: r.store.ctx, store: r.store, scope: in, seen: map[string]bool{}, found: map[string]Change{}}
	_, head, err := r.head()
	if err != nil {
		return nil, err
	}
	if head != "" {
		commit, err := r.git.CommitObject(plumbing.NewHash(head))
		if err != nil {
			return nil, err
		}
		if err := c.commit(commit.TreeHash, ".", 0); err != nil {
			return nil, err
		}
	}
	for p := range s.paths {
		if !c.seen[p] && in.has(p) && s.content(p) != nil {
			c.note(p, func(x *Change) { x.Staged = added })
		}
	}
	clear(c.seen)
	if err := c.files(r, in); err != nil {
		return nil, err
	}
	for p, e := range s.paths {
		switch {
		case !in.has(p):
		case s.open[p]:
			c.note(p, func(x *Change) { *x = Change{Path: p, Worktree: unmerged} })
		case !c.seen[p] && !e.SkipWorktree:
			c.note(p, func(x *Change) { x.Worktree = deleted })
		}
	}
	out := make([]Change, 0, len(c.found))
	for _, x := range c.found {
		out = append(out, x)
	}
	slices.SortFunc(out, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	return out, nil
}

func (c *comparison) note(p string, f func(*Change)) {
	x, ok := c.found[p]
	if !ok {
		x.Path = p
		c.length += len(p)
	}
	f(&x)
	c.found[p] = x
}

// commit compares a directory of the commit with the index.
func (c *comparison) commit(tree plumbing.Hash, dir string, depth int) error {
	if depth > maxIndexDepth || c.length > maxIndexPaths {
		return errTrees
	}
	data, err := c.store.raw(plumbing.TreeObject, tree)
	if err != nil {
		return err
	}
	for len(data) > 0 {
		var name string
		var n node
		if name, n, data, err = nextEntry(data); err != nil {
			return err
		}
		p := path.Join(dir, name)
		switch {
		case !leadsDown(name) || strings.Contains(name, "/"):
			return errTree
		case len(p) > maxIndexName:
			return errTrees
		case n.mode == filemode.Dir && c.scope.reaches(p):
			err = c.commit(n.hash, p, depth+1)
		case n.mode != filemode.Dir && c.scope.has(p):
			c.seen[p] = true
			switch e := c.content(p); {
			case e == nil:
				c.note(p, func(x *Change) { x.Staged = deleted })
			case e.Hash != n.hash || plain(e.Mode) != plain(n.mode):
				c.note(p, func(x *Change) { x.Staged = modified })
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// plain removes a group's write permission, which old commits have, from a mode.
func plain(m filemode.FileMode) filemode.FileMode {
	if m == filemode.Deprecated {
		return filemode.Regular
	}
	return m
}

// nextEntry returns the first entry in the bytes of a tree, and the bytes after it.
func nextEntry(data []byte) (name string, n node, rest []byte, err error) {
	mode, rest, ok := bytes.Cut(data, []byte(" "))
	end := bytes.IndexByte(rest, 0)
	if !ok || end < 0 || len(rest) < end+1+hashSize {
		return "", n, nil, errTree
	}
	bits, err := strconv.ParseUint(string(mode), 8, 32)
	if err != nil {
		return "", n, nil, errTree
	}
	after := rest[end+1:]
	return string(rest[:end]), node{filemode.FileMode(bits), plumbing.Hash(after[:hashSize])}, after[hashSize:], nil
}

// files compares the files of the worktree with the index.
func (c *comparison) files(r *Repo, in scope) error {
	dir, err := file.Open(r.top)
	if err != nil {
		return err
	}
	defer dir.Close()
	var ignored file.Ignore
	ignored = ignored.WithFile(root.Place{Root: r.top.Root, FS: r.common, Path: "info/exclude"}, ".")
	return c.dir(dir, ".", ignored, false, 0)
}

// dir compares the entries of an open directory. In an ignored directory or a separate repository only
// tracked files count.
func (c *comparison) dir(dir *file.Dir, at string, ignored file.Ignore, trackedOnly bool, depth int) error {
	switch {
	case dir.Cut:
		return refuse("%s has too many entries to compare; give a path", dir.Place)
	case depth >= maxIndexDepth:
		return refuse("%s is more than %d directories deep, too deep to compare; give a path", dir.Place, maxIndexDepth)
	}
	if !trackedOnly {
		ignored = ignored.With(dir.Place, at)
	}
	for _, e := range dir.Entries {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		p := path.Join(at, e.Name())
		if !c.scope.reaches(p) || root.Guarded(e.Name()) == ".git" {
			continue
		}
		known := c.paths[p]
		switch {
		case e.IsDir() && known != nil && known.Mode == filemode.Submodule:
			c.seen[p] = true
		case e.IsDir():
			only := trackedOnly || ignored.Matches(p, true)
			if only && !c.dirs[p] {
				continue
			}
			if err := c.inner(dir.Place.In(e.Name()), p, ignored, only, depth); err != nil {
				return err
			}
		case known != nil:
			if err := c.file(dir.Place.In(e.Name()), known); err != nil {
				return err
			}
		case !trackedOnly && e.Type()&^fs.ModeSymlink == 0 && c.scope.has(p) && !ignored.Matches(p, false):
			c.note(p, func(x *Change) { x.Worktree = untracked })
		}
	}
	return nil
}

// inner enters a directory.
func (c *comparison) inner(at root.Place, p string, ignored file.Ignore, trackedOnly bool, depth int) error {
	dir, err := file.Open(at)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // gone meanwhile
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	own := slices.ContainsFunc(dir.Entries, func(e fs.DirEntry) bool { return e.Name() == ".git" })
	if own && !trackedOnly && c.scope.has(p) {
		c.note(p+ownRepository, func(x *Change) { x.Worktree = untracked })
	}
	if own && !c.dirs[p] {
		return nil
	}
	return c.dir(dir, p, ignored, trackedOnly || own, depth+1)
}

// file compares a file with its entry.
func (c *comparison) file(at root.Place, e *index.Entry) error {
	info, err := at.FS.Lstat(at.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	c.seen[e.Name] = true
	switch {
	case e.IntentToAdd:
		c.note(e.Name, func(x *Change) { x.Worktree = added })
		return nil
	case e.SkipWorktree:
		return nil
	}
	same, err := c.same(at, info, e)
	if err == nil && !same {
		c.note(e.Name, func(x *Change) { x.Worktree = modified })
	}
	return err
}

// same reports whether a file is as it was staged. Like git, it does not read a file that has the size and
// times of its entry and is older than the index, or a file of another size.
func (c *comparison) same(at root.Place, info fs.FileInfo, e *index.Entry) (bool, error) {
	mode, ok := modeOf(info)
	switch {
	case !ok, mode != plain(e.Mode) && (runtime.GOOS != "windows" || mode == filemode.Symlink):
		return false, nil
	case uint32(info.Size()) == e.Size && unchanged(info, e) && e.ModifiedAt.Before(c.ModTime):
		return true, nil
	case uint32(info.Size()) != e.Size && e.Size != 0:
		return false, nil
	}
	hash, err := hashOf(c.ctx, at, mode, info.Size())
	return hash == e.Hash, err
}

// modeOf returns git's mode of a file; false if git does not store it.
func modeOf(info fs.FileInfo) (filemode.FileMode, bool) {
	switch m := info.Mode(); {
	case m&fs.ModeSymlink != 0:
		return filemode.Symlink, true
	case m.IsRegular() && m&0o100 != 0:
		return filemode.Executable, true
	case m.IsRegular():
		return filemode.Regular, true
	}
	return 0, false
}

// hashOf returns the hash that a file has as an object.
func hashOf(ctx context.Context, at root.Place, mode filemode.FileMode, size int64) (plumbing.Hash, error) {
	if mode == filemode.Symlink {
		to, err := at.FS.Readlink(at.Path)
		return plumbing.ComputeHash(plumbing.BlobObject, []byte(to)), err
	}
	f, err := at.FS.OpenFile(at.Path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return plumbing.ZeroHash, errors.Join(err, errNoFile)
	}
	h := plumbing.NewHasher(plumbing.BlobObject, size)
	if n, err := io.Copy(h, &openFile{f, at.Path, ctx}); err != nil || n != size {
		return plumbing.ZeroHash, err // it is growing: it differs from the staged file
	}
	return h.Sum(), nil
}

// Status returns at most limit changed files below a path of the worktree.
func (r *Repo) Status(below string, limit int) (s Status, err error) {
	s = Status{Repository: r.top.String(), Changes: []Change{}}
	if s.Branch, s.Head, err = r.head(); err != nil {
		return s, explain(err)
	}
	changed, err := r.changes(below)
	if err != nil {
		return s, err
	}
	if len(changed) > limit {
		changed, s.Note = changed[:limit], fmt.Sprintf("there are %d more changes; give a path or a higher limit", len(changed)-limit)
	}
	for _, c := range changed {
		slash := c.Path[len(strings.TrimSuffix(c.Path, ownRepository)):]
		c.Path = r.Place(c.Path).String() + slash
		s.Changes = append(s.Changes, c)
	}
	return s, nil
}
