package repo

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/format/gitattributes"
	"github.com/go-git/go-git/v5/plumbing/format/index"

	"github.com/busbar-mcp/busbar/services/workspace/internal/file"
	"github.com/busbar-mcp/busbar/services/workspace/internal/root"
)

// Add stages files and the contents of directories as they are now; missing files are staged as deleted.
// It refuses a file with a filter: the filter would have to run.
func (r *Repo) Add(paths []string) error {
	changed, err := r.changes(paths...)
	if err != nil {
		return err
	}
	var add []Change
	met := map[string]bool{}
	for _, c := range changed {
		for p := strings.TrimSuffix(c.Path, ownRepository); ; p = path.Dir(p) {
			if met[p] = true; p == "." {
				break
			}
		}
		if c.Worktree != "" && !strings.HasSuffix(c.Path, ownRepository) {
			add = append(add, c)
		}
	}
	for _, p := range paths {
		if slices.ContainsFunc(changed, func(c Change) bool { return c.Path == p+ownRepository }) {
			return refuse("%s is a separate repository; nothing was staged", r.Place(p))
		}
		if _, err := r.top.FS.Lstat(path.Join(r.top.Path, p)); err != nil && !met[p] {
			return refuse("%s does not exist and is not tracked; nothing was staged", r.Place(p))
		}
	}
	if err := r.unfiltered(add); err != nil {
		return err
	}
	s, err := r.index()
	if err != nil || len(add) == 0 {
		return err
	}
	for _, c := range add {
		if root.Guarded(c.Path) == ".git" {
			return refuse("the index has %s, a name that means .git; nothing was staged", r.Place(c.Path))
		}
		if err := r.stage(s, c.Path); err != nil {
			return err
		}
	}
	return r.save(s)
}

// stage adds a file as it is now to the index, and its content to the objects.
func (r *Repo) stage(s *staged, p string) error {
	at := r.Place(p)
	dir, name, err := root.Parent(at.FS, at.Path, false)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		delete(s.paths, p)
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	info, err := dir.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		delete(s.paths, p)
		return nil
	}
	if err != nil {
		return err
	}
	mode, ok := modeOf(info)
	switch {
	case info.IsDir():
		delete(s.paths, p) // the files in it are staged one by one
		return nil
	case !ok:
		return errNoFile
	case info.Size() > maxObject:
		return refuse("%s has %d bytes; only files of up to %d MiB can be staged here; nothing was staged; ask a person to stage it", at, info.Size(), maxObject>>20)
	}
	data, err := contentOf(dir, name, mode)
	if err != nil {
		return err
	}
	o := r.git.Storer.NewEncodedObject()
	o.SetType(plumbing.BlobObject)
	w, err := o.Writer()
	if err == nil {
		_, err = w.Write(data)
		err = errors.Join(err, w.Close())
	}
	if err != nil {
		return err
	}
	e := &index.Entry{Name: p, Mode: mode}
	if e.Hash, err = r.git.Storer.SetEncodedObject(o); err != nil {
		return err
	}
	stat(info, e)
	s.paths[p] = e
	return nil
}

func contentOf(dir *os.Root, name string, mode filemode.FileMode) ([]byte, error) {
	if mode == filemode.Symlink {
		to, err := dir.Readlink(name)
		return []byte(to), err
	}
	f, err := dir.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, errNoFile)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxObject+1))
	if err == nil && len(data) > maxObject {
		err = errLarge
	}
	return data, err
}

// unfiltered refuses files with a filter in the attributes on the way to them.
func (r *Repo) unfiltered(all []Change) error {
	own, err := r.attributes(root.Place{Root: r.top.Root, FS: r.common, Path: "info/attributes"}, ".")
	if err != nil {
		return err
	}
	known := map[string][]gitattributes.MatchAttribute{}
	var on func(dir string) ([]gitattributes.MatchAttribute, error)
	on = func(dir string) (stack []gitattributes.MatchAttribute, err error) {
		if stack, ok := known[dir]; ok {
			return stack, nil
		}
		if dir != "." {
			if stack, err = on(path.Dir(dir)); err != nil {
				return nil, err
			}
		}
		here, err := r.attributes(r.Place(path.Join(dir, ".gitattributes")), dir)
		known[dir] = append(slices.Clip(stack), here...)
		return known[dir], err
	}
	for _, c := range all {
		stack, err := on(path.Dir(c.Path))
		if err != nil {
			return err
		}
		found, ok := gitattributes.NewMatcher(append(slices.Clip(stack), own...)).Match(strings.Split(c.Path, "/"), []string{"filter"})
		if ok && found["filter"] != nil && found["filter"].IsValueSet() {
			return refuse("%s has the filter %s, a program that does not run here; nothing was staged; ask a person to stage it", r.Place(c.Path), line(found["filter"].Value()))
		}
	}
	return nil
}

// attributes reads an attributes file for the contents of a directory; none if it does not exist.
func (r *Repo) attributes(p root.Place, dir string) ([]gitattributes.MatchAttribute, error) {
	c, err := file.Read(p)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, errors.Join(err, errSaid)
	}
	var domain []string
	if dir != "." {
		domain = strings.Split(dir, "/")
	}
	return gitattributes.ReadAttributes(bytes.NewReader(c.Data), domain, dir == ".")
}
