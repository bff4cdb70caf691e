package repo

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/busbar-mcp/busbar/services/workspace/internal/file"
	"github.com/busbar-mcp/busbar/services/workspace/internal/root"
)

// Tree is a worktree other than the first.
type Tree struct {
	Path   string `json:"path,omitzero" jsonschema:"directory of the worktree; absent if you may not use it"`
	Branch string `json:"branch,omitzero"`
	Commit string `json:"commit,omitzero"`
}

const (
	worktrees = "worktrees"
	// maxWorktrees is how many worktrees of a repository are read.
	maxWorktrees = 100
)

// Trees lists the worktrees of the repository except its first.
func (r *Repo) Trees() ([]Tree, error) {
	all := []Tree{}
	err := r.eachTree(func(_ string, at string, head string) error {
		t := Tree{}
		if at != "" {
			t.Path = root.Place{Root: r.top.Root, FS: r.top.FS, Path: at, At: r.top.At}.String()
		}
		if branch, ok := strings.CutPrefix(head, "ref: refs/heads/"); ok {
			t.Branch = utf8Of(branch, maxRevision)
		} else {
			t.Commit = utf8Of(head, 64)
		}
		all = append(all, t)
		return nil
	})
	return all, err
}

// eachTree visits git's record of each worktree: its name, its path in the root (empty if outside), and
// its HEAD.
func (r *Repo) eachTree(visit func(name, at, head string) error) error {
	entries, err := file.ReadDir(r.common, worktrees)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries[:min(len(entries), maxWorktrees)] {
		head := r.kept(path.Join(worktrees, e.Name(), "HEAD"))
		gitdir := r.kept(path.Join(worktrees, e.Name(), "gitdir"))
		if head == "" || gitdir == "" {
			continue
		}
		if !path.IsAbs(gitdir) {
			gitdir = path.Join(filepath.ToSlash(r.top.Dir()), r.top.At, r.commonAt, worktrees, e.Name(), gitdir)
		}
		at, ok := r.top.Inside(path.Dir(gitdir))
		if !ok {
			at = ""
		}
		if err := visit(e.Name(), at, head); err != nil {
			return err
		}
	}
	return nil
}

// kept returns the content of a small file in which git keeps facts about worktrees; empty if it does not
// exist.
func (r *Repo) kept(p string) string {
	text, err := small(r.common, p)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(text)
}

// free returns an error if another worktree has a branch checked out.
func (r *Repo) free(ref plumbing.ReferenceName) error {
	taken := refuse("branch %s is checked out in another worktree of the repository; nothing was changed", ref.Short())
	linked := r.private != r.common
	if linked && r.kept("HEAD") == "ref: "+ref.String() {
		return taken
	}
	return r.eachTree(func(name, _, head string) error {
		if mine := linked && name == path.Base(r.private.Name()); head == "ref: "+ref.String() && !mine {
			return taken
		}
		return nil
	})
}

// AddTree creates a worktree in a new directory, with a branch; with create, the branch is new, at the
// current commit.
func (r *Repo) AddTree(ctx context.Context, to root.Place, branch string, create bool) (err error) {
	ref, err := branchName(branch)
	if err != nil {
		return err
	}
	if to.Root != r.top.Root || to.FS != r.top.FS {
		return refuse("%s is not in the root of the repository", to)
	}
	if root.Guarded(to.Full()) != "" || root.Repository(to) != "" || to.Path == "." {
		return refuse("%s cannot become a worktree; give a path inside the root", to)
	}
	if _, err := to.FS.Lstat(to.Path); !errors.Is(err, fs.ErrNotExist) {
		return refuse("%s already exists; nothing was changed", to)
	}
	switch {
	case create == r.has(ref) && create:
		return refuse("branch %q already exists", branch)
	case create == r.has(ref):
		return refuse("there is no branch %q; set create to create it", branch)
	case !create:
		if err := r.free(ref); err != nil {
			return err
		}
	}
	commit, err := r.commit("")
	if !create {
		commit, err = r.commit(ref.String())
	}
	if err != nil {
		return err
	}
	if create {
		if err := r.git.Storer.SetReference(plumbing.NewHashReference(ref, commit.Hash)); err != nil {
			return err
		}
		defer func() {
			if err != nil {
				_ = r.git.Storer.RemoveReference(ref)
			}
		}()
	}
	name := path.Base(to.Path) + "-" + unique()[:6]
	admin := path.Join(worktrees, name)
	defer func() {
		if err != nil {
			_ = r.common.RemoveAll(admin)
			_ = to.FS.RemoveAll(to.Path)
		}
	}()
	top := path.Join(filepath.ToSlash(r.top.Dir()), r.top.At)
	for p, text := range map[string]string{
		"HEAD": "ref: " + ref.String() + "\n", "commondir": "../..\n", "gitdir": path.Join(top, to.Path, ".git") + "\n",
	} {
		if err := put(r.common, path.Join(admin, p), text); err != nil {
			return err
		}
	}
	if err := put(to.FS, path.Join(to.Path, ".git"), "gitdir: "+path.Join(top, r.commonAt, admin)+"\n"); err != nil {
		return err
	}
	made, _, err := Open(ctx, to)
	if err != nil {
		return err
	}
	defer made.Close()
	return made.fill(commit)
}

// put writes a new file and the directories on the way.
func put(dir *os.Root, p, text string) error {
	in, name, err := root.Parent(dir, p, true)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	f, err := in.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// RemoveTree removes a worktree of the repository if nothing is lost: everything is committed, and no file
// is untracked.
func (r *Repo) RemoveTree(ctx context.Context, at root.Place) error {
	var name string
	err := r.eachTree(func(n, path, _ string) error {
		if path == at.Path && at.Root == r.top.Root {
			name = n
		}
		return nil
	})
	if err != nil {
		return err
	}
	if name == "" {
		return refuse("%s is not a worktree of this repository, or is its first one, which cannot be removed", at)
	}
	there, rel, err := Open(ctx, at)
	if err != nil {
		return err
	}
	defer there.Close()
	changed, err := there.changes(".")
	switch {
	case err != nil:
		return err
	case rel != "." || path.Base(there.private.Name()) != name:
		return refuse("%s is no longer a worktree of this repository", at)
	case len(changed) > 0:
		return refuse("%s is not committed; nothing was removed; commit or delete it first", there.Place(changed[0].Path))
	}
	dir, last, err := root.Parent(at.FS, at.Path, false)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	if err := dir.RemoveAll(last); err != nil {
		return err
	}
	return r.common.RemoveAll(path.Join(worktrees, name))
}
