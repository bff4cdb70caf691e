package repo

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/index"
	"github.com/go-git/go-git/v5/plumbing/object"
)

// Change runs f, which changes the repository. Only one change of the root runs at a time, and none while
// another git program holds the index.
func (r *Repo) Change(ctx context.Context, f func() error) error {
	unlock, err := r.top.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	lock, err := r.private.OpenFile("index.lock", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return refuse("another git program is at work in this repository, or has crashed; nothing was changed; try again, or if none runs, ask a person to remove .git/index.lock")
	}
	if err != nil {
		return explain(err)
	}
	_ = lock.Close()
	defer func() { _ = r.private.Remove("index.lock") }()
	for _, state := range []string{"MERGE_HEAD", "rebase-merge", "rebase-apply", "CHERRY_PICK_HEAD", "REVERT_HEAD"} {
		if _, err := r.private.Lstat(state); err == nil {
			return refuse("a merge, rebase, cherry-pick or revert is not finished in this repository; nothing was changed; ask a person to finish it")
		}
	}
	return explain(f())
}

// maxCommitMessage is the longest message, in bytes.
const maxCommitMessage = 64 << 10

// Commit commits the staged changes; with all, also the changes of tracked files.
func (r *Repo) Commit(message, name, email string, all, empty bool) (Commit, error) {
	message = strings.TrimSpace(message)
	switch {
	case message == "":
		return Commit{}, refuse("the message is empty; give one")
	case len(message) > maxCommitMessage:
		return Commit{}, refuse("the message is longer than %d KiB; shorten it", maxCommitMessage>>10)
	case strings.ContainsRune(message, 0):
		return Commit{}, refuse("the message contains a NUL character; remove it")
	case strings.ContainsAny(name+email, "<>\n\r\x00") || len(name)+len(email) > 500 || name == "":
		return Commit{}, refuse("the author is not valid; give a name and an address without angle brackets and line breaks")
	}
	if err := r.committed(func(e *index.Entry) string {
		if e.Stage != 0 {
			return "is not merged; merge it and call git_add"
		}
		return ""
	}); err != nil {
		return Commit{}, err
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
	if err := r.committed(func(e *index.Entry) string {
		if e.IntentToAdd {
			return "is only marked with git add -N; call git_add to stage its content"
		}
		return ""
	}); err != nil {
		return Commit{}, err
	}
	who := &object.Signature{Name: name, Email: email, When: time.Now()}
	hash, err := r.tree.Commit(message+"\n", &git.CommitOptions{Author: who, Committer: who, AllowEmptyCommits: empty})
	if errors.Is(err, git.ErrEmptyCommit) {
		return Commit{}, refuse("nothing is staged; call git_add first")
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

// committed refuses a commit if wrong finds a problem with an entry of the index: go-git would commit it
// all the same.
func (r *Repo) committed(wrong func(*index.Entry) string) error {
	s, err := r.index()
	if err != nil {
		return err
	}
	for _, p := range slices.Sorted(maps.Keys(s.paths)) {
		if words := wrong(s.paths[p]); words != "" {
			return refuse("%s %s; nothing was committed", r.Place(p), words)
		}
	}
	return nil
}

// branchName checks the name of a new branch.
func branchName(name string) (plumbing.ReferenceName, error) {
	ref := plumbing.NewBranchReferenceName(name)
	if err := ref.Validate(); err != nil || len(name) > maxRevision || strings.HasPrefix(name, "-") || name == "HEAD" {
		return "", refuse("%q is not a valid branch name", line(name))
	}
	return ref, nil
}

// Checkout checks out a branch, or with create a new one, or the commit of another revision. It never
// overwrites uncommitted changes: if they are in the way, nothing changes.
func (r *Repo) Checkout(revision string, create bool) error {
	branch := false
	ref, err := branchName(revision)
	var target *object.Commit
	switch {
	case create && err != nil:
		return err
	case create:
		if _, err := r.git.Reference(ref, false); err == nil {
			return refuse("branch %q already exists", revision)
		}
		if target, err = r.commit("HEAD"); err != nil {
			return err
		}
		return r.create(ref, target)
	case err == nil && r.has(ref):
		if err := r.free(ref); err != nil {
			return err
		}
		branch = true
		target, err = r.commit(ref.String())
	default:
		target, err = r.commit(revision)
	}
	if err != nil {
		return err
	}
	head := plumbing.NewHashReference(plumbing.HEAD, target.Hash)
	if branch {
		head = plumbing.NewSymbolicReference(plumbing.HEAD, ref)
	}
	changes, err := r.room(target)
	if err != nil {
		return err
	}
	if err := r.put(changes); err != nil {
		return err
	}
	return r.git.Storer.SetReference(head)
}

// create creates a branch at the current commit and points HEAD to it. Index and files do not change.
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
