package repo

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/gitattributes"
	"github.com/go-git/go-git/v5/plumbing/format/index"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/utils/merkletrie"

	"github.com/busbar-mcp/busbar/services/workspace/internal/root"
)

// Change has f change the repository: one such change of the root at a time, and
// none while another git has the index.
func (r *Repo) Change(ctx context.Context, f func() error) error {
	unlock, err := r.top.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	lock, err := r.private.OpenFile("index.lock", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return refuse("another git is at work in this repository, or has died there: nothing was changed; when none runs, a person removes .git/index.lock")
	}
	if err != nil {
		return explain(err)
	}
	_ = lock.Close()
	defer func() { _ = r.private.Remove("index.lock") }()
	for _, state := range []string{"MERGE_HEAD", "rebase-merge", "rebase-apply", "CHERRY_PICK_HEAD", "REVERT_HEAD"} {
		if _, err := r.private.Lstat(state); err == nil {
			return refuse("a merge, rebase, cherry-pick or revert is under way in this repository: a person ends it first; nothing was changed")
		}
	}
	return explain(f())
}

// Add stages files, and what is in directories, as they are now; also that they are
// gone. Files with a filter are refused: it would have to run.
func (r *Repo) Add(paths []string) error {
	patterns, err := gitattributes.ReadPatterns(r.tree.Filesystem, nil)
	if err != nil {
		return err
	}
	filters := gitattributes.NewMatcher(patterns)
	changed, err := r.changes(".")
	if err != nil {
		return err
	}
	var add []string
	for _, p := range paths {
		n := len(add)
		for _, c := range changed {
			switch {
			case c.Path == p+ownRepository:
				return refuse("%s is a repository of its own: nothing was staged", r.Place(p))
			case c.Worktree != "" && in(p, c.Path) && !strings.HasSuffix(c.Path, ownRepository):
				add = append(add, c.Path)
			}
		}
		if len(add) > n {
			continue
		}
		if _, err := r.top.FS.Lstat(path.Join(r.top.Path, p)); err != nil && !slices.ContainsFunc(changed, func(c Change) bool { return in(p, c.Path) }) {
			return refuse("%s is not there, and was not tracked: nothing was staged", r.Place(p))
		}
	}
	slices.Sort(add)
	add = slices.Compact(add)
	for _, p := range add {
		if found, ok := filters.Match(strings.Split(p, "/"), []string{"filter"}); ok && found["filter"] != nil && found["filter"].IsValueSet() {
			return refuse("%s has the filter %s, a program that is not run here: nothing was staged; a person stages it", r.Place(p), line(found["filter"].Value()))
		}
	}
	for _, p := range add {
		if err := r.tree.AddWithOptions(&git.AddOptions{Path: p, SkipStatus: true}); err != nil {
			return err
		}
	}
	return nil
}

// maxCommitMessage is the most bytes of a message that is written.
const maxCommitMessage = 64 << 10

// Commit makes a commit of what is staged, with all of what is tracked and changed.
func (r *Repo) Commit(message, name, email string, all, empty bool) (Commit, error) {
	message = strings.TrimSpace(message)
	switch {
	case message == "":
		return Commit{}, refuse("a commit has a message")
	case len(message) > maxCommitMessage:
		return Commit{}, refuse("the message is longer than %d KiB", maxCommitMessage>>10)
	case strings.ContainsRune(message, 0):
		return Commit{}, refuse("the message has a NUL character")
	case strings.ContainsAny(name+email, "<>\n\r\x00") || len(name)+len(email) > 500 || name == "":
		return Commit{}, refuse("an author has a name and an address, without angle brackets and line breaks")
	}
	if all {
		changed, err := r.pathsOf(".", func(c Change) bool { return c.Worktree != "" && c.Worktree != "untracked" })
		if err == nil && len(changed) > 0 {
			err = r.Add(changed)
		}
		if err != nil {
			return Commit{}, err
		}
	}
	who := &object.Signature{Name: name, Email: email, When: time.Now()}
	hash, err := r.tree.Commit(message+"\n", &git.CommitOptions{Author: who, Committer: who, AllowEmptyCommits: empty})
	if errors.Is(err, git.ErrEmptyCommit) {
		return Commit{}, refuse("nothing is staged: git_add stages files")
	}
	if err != nil {
		return Commit{}, err
	}
	c, err := r.git.CommitObject(hash)
	if err != nil {
		return Commit{}, err
	}
	return describe(c), nil
}

// branchName checks the name of a branch that is to be made.
func branchName(name string) (plumbing.ReferenceName, error) {
	ref := plumbing.NewBranchReferenceName(name)
	if err := ref.Validate(); err != nil || len(name) > maxRevision || strings.HasPrefix(name, "-") || name == "HEAD" {
		return "", refuse("%q is no name for a branch", line(name))
	}
	return ref, nil
}

// Checkout checks out a branch, or with create a new one; or the commit of another
// revision. What is not committed stays as it is: where it is in the way, nothing is
// changed.
func (r *Repo) Checkout(revision string, create bool) error {
	o := &git.CheckoutOptions{}
	ref, err := branchName(revision)
	var target *object.Commit
	switch {
	case create && err != nil:
		return err
	case create:
		if _, err := r.git.Reference(ref, false); err == nil {
			return refuse("there is a branch %q already", revision)
		}
		if target, err = r.commit("HEAD"); err != nil {
			return err
		}
		return r.create(ref, target)
	case err == nil && r.has(ref):
		if err := r.free(ref); err != nil {
			return err
		}
		o.Branch = ref
		target, err = r.commit(ref.String())
	default:
		target, err = r.commit(revision)
	}
	if err != nil {
		return err
	}
	if o.Branch == "" {
		o.Hash = target.Hash
	}
	if err := r.room(target); err != nil {
		return err
	}
	return r.tree.Checkout(o)
}

// create makes a branch at the commit that is checked out, and puts HEAD there:
// index and files stay as they are.
func (r *Repo) create(ref plumbing.ReferenceName, at *object.Commit) error {
	if err := r.git.Storer.SetReference(plumbing.NewHashReference(ref, at.Hash)); err != nil {
		return err
	}
	return r.git.Storer.SetReference(plumbing.NewSymbolicReference(plumbing.HEAD, ref))
}

func (r *Repo) has(ref plumbing.ReferenceName) bool {
	_, err := r.git.Reference(ref, true)
	return err == nil
}

// room checks that a commit can be checked out without the loss of anything: nothing
// tracked has changed, and no file that is not tracked is where the commit has one.
func (r *Repo) room(target *object.Commit) error {
	changed, err := r.pathsOf(".", func(c Change) bool { return c.Staged != "" || c.Worktree != "" && c.Worktree != "untracked" })
	if err != nil {
		return err
	}
	if len(changed) > 0 {
		return refuse("%s has changes that are not committed: nothing was checked out; commit them first", r.Place(changed[0]))
	}
	tree, err := target.Tree()
	if err != nil {
		return err
	}
	now := &object.Tree{}
	if _, hash, err := r.head(); err == nil && hash != "" {
		head, err := r.commit("")
		if err != nil {
			return err
		}
		if now, err = head.Tree(); err != nil {
			return err
		}
	}
	changes, err := object.DiffTree(now, tree)
	if err != nil {
		return err
	}
	for _, c := range changes {
		for _, name := range []string{c.From.Name, c.To.Name} {
			if root.Guarded(name) == ".busbar" {
				return refuse("%s says what may run here, and that commit has another: nothing was checked out; a person does that", r.Place(name))
			}
		}
		action, err := c.Action()
		if err != nil {
			return err
		}
		if action != merkletrie.Insert {
			continue
		}
		if at := r.inTheWay(c.To.Name, now); at != "" {
			return refuse("%s is not tracked, and the commit has something there: nothing was checked out; move it first", r.Place(at))
		}
	}
	return nil
}

// inTheWay is what there is on the way to a new path that no commit knows: the path
// itself, or a file where a directory has to be.
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

// reset fills a new worktree with the files of a commit.
func (r *Repo) reset(c *object.Commit) error {
	if err := r.git.Storer.SetIndex(&index.Index{Version: 2}); err != nil {
		return err
	}
	return r.tree.Reset(&git.ResetOptions{Commit: c.Hash, Mode: git.HardReset})
}
