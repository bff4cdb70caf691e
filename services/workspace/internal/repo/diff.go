package repo

import (
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/index"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/busbar-mcp/busbar/services/workspace/internal/file"
)

// maxDiffFiles is the largest number of files in a diff.
const maxDiffFiles = 500

// Diff is a difference, file by file.
type Diff struct {
	Text  string
	Files int
	// Cut: the diff is incomplete.
	Cut bool
}

// side returns a file in one of two states; nil if it does not exist there.
type side func(p string) ([]byte, error)

// DiffCommits returns the difference between two commits, below a path. Without to, it compares from with
// the worktree.
func (r *Repo) DiffCommits(from, to, below string, most int) (d Diff, err error) {
	a, err := r.commit(from)
	if err != nil {
		return d, err
	}
	if to == "" {
		return r.diffWorktree(a, below, most)
	}
	b, err := r.commit(to)
	if err != nil {
		return d, err
	}
	return r.between(a, b, below, most)
}

// between returns the difference between two commits; a nil first commit is empty.
func (r *Repo) between(a, b *object.Commit, below string, most int) (d Diff, err error) {
	old := &object.Tree{}
	if a != nil {
		if old, err = a.Tree(); err != nil {
			return d, explain(err)
		}
	}
	tree, err := b.Tree()
	if err != nil {
		return d, explain(err)
	}
	paths, err := r.changed(old, tree, below)
	if err != nil {
		return d, err
	}
	return d, d.write(paths, inTree(old), inTree(tree), most)
}

func (r *Repo) changed(a, b *object.Tree, below string) (paths []string, err error) {
	changes, err := object.DiffTree(a, b)
	if err != nil {
		return nil, explain(err)
	}
	for _, c := range changes {
		for _, p := range []string{c.From.Name, c.To.Name} {
			if p != "" && in(below, p) {
				paths = append(paths, p)
			}
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths), nil
}

// DiffStaged returns the staged changes below a path.
func (r *Repo) DiffStaged(below string, most int) (d Diff, err error) {
	old := &object.Tree{}
	if _, hash, err := r.head(); err != nil {
		return d, explain(err)
	} else if hash != "" {
		c, err := r.git.CommitObject(plumbing.NewHash(hash))
		if err == nil {
			old, err = c.Tree()
		}
		if err != nil {
			return d, explain(err)
		}
	}
	paths, err := r.pathsOf(below, func(c Change) bool { return c.Staged != "" })
	if err != nil {
		return d, err
	}
	staged, err := r.inIndex()
	if err != nil {
		return d, err
	}
	return d, d.write(paths, inTree(old), staged, most)
}

// DiffUnstaged returns the unstaged changes below a path, without untracked files.
func (r *Repo) DiffUnstaged(below string, most int) (d Diff, err error) {
	paths, err := r.pathsOf(below, func(c Change) bool { return c.Worktree != "" && c.Worktree != "untracked" })
	if err != nil {
		return d, err
	}
	staged, err := r.inIndex()
	if err != nil {
		return d, err
	}
	return d, d.write(paths, staged, r.inWorktree, most)
}

// diffWorktree compares a commit with the tracked files of the worktree.
func (r *Repo) diffWorktree(c *object.Commit, below string, most int) (d Diff, err error) {
	tree, err := c.Tree()
	if err != nil {
		return d, explain(err)
	}
	paths, err := r.pathsOf(below, func(c Change) bool { return c.Worktree != "untracked" })
	if err != nil {
		return d, err
	}
	if _, hash, err := r.head(); err == nil && hash != "" && hash != c.Hash.String() {
		now, err := r.commit("")
		if err != nil {
			return d, err
		}
		head, err := now.Tree()
		if err != nil {
			return d, explain(err)
		}
		others, err := r.changed(tree, head, below)
		if err != nil {
			return d, err
		}
		paths = append(paths, others...)
		slices.Sort(paths)
		paths = slices.Compact(paths)
	}
	return d, d.write(paths, inTree(tree), r.inWorktree, most)
}

func (r *Repo) pathsOf(below string, wanted func(Change) bool) (paths []string, err error) {
	all, err := r.changes(below)
	for _, c := range all {
		if wanted(c) {
			paths = append(paths, c.Path)
		}
	}
	return paths, err
}

// write compares files until the diff has most bytes.
func (d *Diff) write(paths []string, a, b side, most int) error {
	var text strings.Builder
	for _, p := range paths {
		if d.Files == maxDiffFiles {
			d.Cut = true
			break
		}
		before, err := a(p)
		if err != nil {
			return explain(err)
		}
		after, err := b(p)
		if err != nil {
			return explain(err)
		}
		one := file.Diff(p, before, after)
		if one == "" {
			continue // only permissions differ, or git would convert the content
		}
		if text.Len()+len(one) > most {
			d.Cut = true
			break
		}
		d.Files++
		text.WriteString(one)
	}
	d.Text = strings.ToValidUTF8(text.String(), "\uFFFD")
	return nil
}

func inTree(t *object.Tree) side {
	return func(p string) ([]byte, error) {
		e, err := t.FindEntry(p)
		switch {
		case errors.Is(err, object.ErrEntryNotFound), errors.Is(err, object.ErrDirectoryNotFound), len(t.Entries) == 0:
			return nil, nil
		case err != nil:
			return nil, err
		case !e.Mode.IsFile():
			return []byte("Subproject commit " + e.Hash.String() + "\n"), nil
		}
		f, err := t.TreeEntryFile(e)
		if err != nil {
			return nil, err
		}
		return blob(&f.Blob)
	}
}

func (r *Repo) inIndex() (side, error) {
	staged, err := r.git.Storer.Index()
	if err != nil {
		return nil, explain(err)
	}
	return func(p string) ([]byte, error) {
		e, err := staged.Entry(p)
		if errors.Is(err, index.ErrEntryNotFound) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		b, err := r.git.BlobObject(e.Hash)
		if errors.Is(err, plumbing.ErrObjectNotFound) && !e.Mode.IsFile() {
			return []byte("Subproject commit " + e.Hash.String() + "\n"), nil
		}
		if err != nil {
			return nil, err
		}
		return blob(b)
	}, nil
}

// inWorktree returns a file as it is now; for a link, its target.
func (r *Repo) inWorktree(p string) ([]byte, error) {
	at := r.Place(p)
	d, _, err := file.Describe(at)
	if err != nil || d.Type == "dir" {
		return nil, nil // it is gone, or a separate repository
	}
	if d.Type == "symlink" {
		return []byte(d.Target), nil
	}
	c, err := file.Read(at)
	return append([]byte{}, c.Data...), err
}

// maxBlob is the largest file of a commit that is shown or compared, in bytes.
//
//limit:files a file of a commit that is shown or compared | the tool fails
const maxBlob = file.MaxFile

func blob(b *object.Blob) ([]byte, error) {
	if b.Size > maxBlob {
		return nil, refuse("a file of the repository has %d bytes; only files of up to %d MiB are compared; give a path to exclude it", b.Size, maxBlob>>20)
	}
	r, err := b.Reader()
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	return io.ReadAll(io.LimitReader(r, maxBlob))
}

// Show returns a commit with its changes against its first parent, below a path.
func (r *Repo) Show(revision, below string, most int) (c Commit, d Diff, err error) {
	commit, err := r.commit(revision)
	if err != nil {
		return c, d, err
	}
	var parent *object.Commit
	if commit.NumParents() > 0 {
		if parent, err = commit.Parent(0); err != nil {
			return c, d, explain(err)
		}
	}
	d, err = r.between(parent, commit, below, most)
	return describe(commit), d, err
}

// FileOf returns a file as it is in a commit.
func (r *Repo) FileOf(revision, p string) ([]byte, error) {
	commit, err := r.commit(revision)
	if err != nil {
		return nil, err
	}
	tree, err := commit.Tree()
	if err != nil {
		return nil, explain(err)
	}
	data, err := inTree(tree)(p)
	if err == nil && data == nil {
		err = refuse("the file is not in that commit")
	}
	return data, explain(err)
}
