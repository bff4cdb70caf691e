package repo

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/format/index"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/utils/merkletrie"

	"github.com/busbar-mcp/busbar/services/workspace/internal/file"
	"github.com/busbar-mcp/busbar/services/workspace/internal/root"
)

// room checks that checking out a commit loses nothing: no tracked file has changed, and no untracked file
// is in the way. It returns the changes to make.
func (r *Repo) room(target *object.Commit) (object.Changes, error) {
	changed, err := r.pathsOf(".", func(c Change) bool { return c.Staged != "" || c.Worktree != "" && c.Worktree != "untracked" })
	if err != nil {
		return nil, err
	}
	if len(changed) > 0 {
		return nil, refuse("%s has uncommitted changes; nothing was checked out; commit them first", r.Place(changed[0]))
	}
	tree, err := target.Tree()
	if err != nil {
		return nil, err
	}
	now := &object.Tree{}
	if _, hash, err := r.head(); err == nil && hash != "" {
		head, err := r.commit("")
		if err != nil {
			return nil, err
		}
		if now, err = head.Tree(); err != nil {
			return nil, err
		}
	}
	changes, err := object.DiffTree(now, tree)
	if err != nil {
		return nil, err
	}
	if err := r.written(changes); err != nil {
		return nil, err
	}
	for _, c := range changes {
		for _, name := range []string{c.From.Name, c.To.Name} {
			if root.Guarded(name) == ".busbar" {
				return nil, refuse("the commit has another %s, which decides what may run here; nothing was checked out; ask a person to check it out", r.Place(name))
			}
		}
		if err := r.unlost(c); err != nil {
			return nil, err
		}
		action, err := c.Action()
		if err != nil {
			return nil, err
		}
		if c.To.Name != "" && c.To.TreeEntry.Mode != filemode.Submodule {
			// Read it before anything is removed: it may be missing or too large.
			if _, err := r.store.raw(plumbing.BlobObject, c.To.TreeEntry.Hash); err != nil {
				return nil, err
			}
			at, err := r.leftIn(c.To.Name)
			if err != nil {
				return nil, err
			}
			if at != "" {
				return nil, refuse("%s is not tracked, and the commit has a file in place of its directory; nothing was checked out; move it first", r.Place(at))
			}
		}
		if action != merkletrie.Insert {
			continue
		}
		if at := r.inTheWay(c.To.Name, now); at != "" {
			return nil, refuse("%s is not tracked, but the commit has an entry there; nothing was checked out; move it first", r.Place(at))
		}
	}
	return changes, nil
}

// written refuses changes to files that this service does not write.
func (r *Repo) written(changes object.Changes) error {
	for _, c := range changes {
		for _, p := range []string{c.From.Name, c.To.Name} {
			if p != "" && (!fs.ValidPath(p) || p == "." || root.Guarded(p) == ".git" || strings.ContainsAny(p, "\\\x00")) {
				return refuse("the commit has a file %q, which this service does not write; nothing was checked out", line(p))
			}
		}
	}
	return nil
}

// inTheWay returns the untracked entry that blocks a new path: the path itself, or a file where a
// directory has to be.
func (r *Repo) inTheWay(p string, now *object.Tree) string {
	for at := p; at != "."; at = path.Dir(at) {
		info, err := r.top.FS.Lstat(path.Join(r.top.Path, at))
		if err != nil || at != p && info.IsDir() {
			continue
		}
		if _, err := now.FindEntry(at); err != nil {
			return at
		}
	}
	return ""
}

// unlost refuses to change a file that differs from the index. The status checks all files that the index
// does not skip; this covers the skipped ones, and files that have changed since.
func (r *Repo) unlost(c *object.Change) error {
	s, err := r.index()
	if err != nil || c.From.Name == "" {
		return err
	}
	e := s.paths[c.From.Name]
	info, err := r.top.FS.Lstat(path.Join(r.top.Path, c.From.Name))
	if err != nil || e == nil || info.IsDir() {
		return nil // nothing would be lost, or nothing is removed
	}
	now := comparison{staged: s, ctx: r.store.ctx}
	same, err := now.same(r.Place(e.Name), info, e)
	if err == nil && !same {
		err = refuse("%s has uncommitted changes that would be lost; it was not checked out; commit them first", r.Place(e.Name))
	}
	return err
}

// leftIn returns an entry that would be left in a directory without its tracked files; empty if there is
// no such directory.
func (r *Repo) leftIn(p string) (string, error) {
	s, err := r.index()
	if err != nil {
		return "", err
	}
	info, err := r.top.FS.Lstat(path.Join(r.top.Path, p))
	if err != nil || !info.IsDir() {
		return "", nil
	}
	dir, err := file.Open(r.Place(p))
	if err != nil {
		return "", err
	}
	defer dir.Close()
	for _, e := range dir.Entries {
		at := path.Join(p, e.Name())
		switch {
		case e.IsDir() && s.dirs[at]:
			if left, err := r.leftIn(at); err != nil || left != "" {
				return left, err
			}
		case e.IsDir(), s.paths[at] == nil:
			return at, r.store.ctx.Err()
		}
	}
	return "", r.store.ctx.Err()
}

// put makes changes of files in the worktree and in the index. It removes first: a directory may become a
// file.
func (r *Repo) put(changes object.Changes) error {
	s, err := r.index()
	if err != nil {
		return err
	}
	skipped := map[string]bool{} // and absent, as in a sparse checkout
	for _, c := range changes {
		if c.From.Name == "" {
			continue
		}
		if err := r.unlost(c); err != nil {
			return err
		}
		if e := s.paths[c.From.Name]; e != nil && e.SkipWorktree {
			_, err := r.top.FS.Lstat(path.Join(r.top.Path, e.Name))
			skipped[e.Name] = err != nil
		}
		delete(s.paths, c.From.Name)
		if err := r.remove(c.From.Name, c.To.Name == ""); err != nil {
			return err
		}
	}
	for _, c := range changes {
		if c.To.Name == "" {
			continue
		}
		e := &index.Entry{Name: c.To.Name, Mode: c.To.TreeEntry.Mode, Hash: c.To.TreeEntry.Hash}
		var absent bool
		if absent, e.SkipWorktree = skipped[e.Name]; !absent {
			if err := r.write(e); err != nil {
				return err
			}
		}
		s.paths[e.Name] = e
	}
	return r.save(s)
}

// remove removes a tracked file, or an empty directory; with up, also the parent directories that become
// empty.
func (r *Repo) remove(p string, up bool) error {
	for ; p != "."; p = path.Dir(p) {
		dir, name, err := root.Parent(r.top.FS, path.Join(r.top.Path, p), false)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		info, err := dir.Lstat(name)
		if err == nil {
			err = dir.Remove(name)
		}
		_ = dir.Close()
		switch {
		case err == nil, errors.Is(err, fs.ErrNotExist):
		case info != nil && info.IsDir():
			return nil // it is not empty, or is a separate repository
		default:
			return err
		}
		if !up {
			return nil
		}
	}
	return nil
}

// write writes the file of an entry, through no link, and stores its times in the entry.
func (r *Repo) write(e *index.Entry) error {
	if e.Mode == filemode.Submodule {
		dir, _, err := root.Parent(r.top.FS, path.Join(r.top.Path, e.Name, "x"), true)
		if err == nil {
			err = dir.Close()
		}
		return err
	}
	data, err := r.store.raw(plumbing.BlobObject, e.Hash)
	if err != nil {
		return err
	}
	dir, name, err := root.Parent(r.top.FS, path.Join(r.top.Path, e.Name), true)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	if e.Mode == filemode.Symlink {
		err = dir.Symlink(string(data), name)
	} else {
		perm := os.FileMode(0o666)
		if e.Mode == filemode.Executable {
			perm = 0o777
		}
		err = create(dir, name, data, perm)
	}
	if err != nil {
		return err
	}
	info, err := dir.Lstat(name)
	if err == nil {
		stat(info, e)
	}
	return err
}

// create writes a file that does not exist yet.
func create(dir *os.Root, name string, data []byte, perm os.FileMode) error {
	f, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// fill fills a new worktree with the files of a commit.
func (r *Repo) fill(c *object.Commit) error {
	if err := r.save(&staged{Index: &index.Index{Version: 2}}); err != nil {
		return err
	}
	tree, err := c.Tree()
	if err != nil {
		return err
	}
	changes, err := object.DiffTree(&object.Tree{}, tree)
	if err != nil {
		return err
	}
	if err := r.written(changes); err != nil {
		return err
	}
	return r.put(changes)
}
