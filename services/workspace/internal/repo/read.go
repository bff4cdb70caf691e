package repo

import (
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
)

// Change is the state of a changed file.
type Change struct {
	Path     string `json:"path"`
	Staged   string `json:"staged,omitzero" jsonschema:"staged change: added, modified or deleted; absent if there is none"`
	Worktree string `json:"worktree,omitzero" jsonschema:"unstaged change: modified, deleted, untracked, unmerged, or added (git add -N); absent if there is none. A path that ends in a slash is a separate repository"`
}

// Status is the state of a worktree.
type Status struct {
	Repository string   `json:"repository" jsonschema:"directory of the worktree"`
	Branch     string   `json:"branch,omitzero" jsonschema:"current branch; absent if a commit is checked out without a branch"`
	Head       string   `json:"head,omitzero" jsonschema:"current commit; absent if the repository has no commits"`
	Changes    []Change `json:"changes"`
	Note       string   `json:"note,omitzero" jsonschema:"says what is missing from this result"`
}

// ownRepository ends the path of a directory in the worktree that is a separate repository or another
// worktree. Its files do not belong to this one.
const ownRepository = "/"

// in reports whether p is dir or below it.
func in(dir, p string) bool {
	return dir == "." || p == dir || p == dir+ownRepository || strings.HasPrefix(p, dir+"/")
}

// head returns the current branch and commit; both may be missing.
func (r *Repo) head() (branch, commit string, err error) {
	ref, err := r.git.Reference(plumbing.HEAD, false)
	if err != nil {
		return "", "", err
	}
	if ref.Type() == plumbing.HashReference {
		return "", ref.Hash().String(), nil
	}
	branch = ref.Target().Short()
	at, err := r.git.Reference(ref.Target(), true)
	switch {
	case errors.Is(err, plumbing.ErrReferenceNotFound):
		return branch, "", nil
	case err != nil:
		return "", "", err
	}
	return branch, at.Hash().String(), nil
}

// maxRevision is the longest revision, in bytes.
const maxRevision = 255

// commit finds a commit by a branch, a tag, a hash or HEAD, each with ~ and ^ after it.
func (r *Repo) commit(revision string) (*object.Commit, error) {
	if revision == "" {
		revision = "HEAD"
	}
	if len(revision) > maxRevision || strings.ContainsAny(revision, " \t\n:@{}[]*?\\") || strings.Contains(revision, "..") {
		return nil, refuse("the revision is not valid; give a branch, a tag, a commit's hash or HEAD, with ~ or ^ after it if needed")
	}
	hash, err := r.git.ResolveRevision(plumbing.Revision(revision))
	if err != nil {
		if errors.Is(err, plumbing.ErrReferenceNotFound) || errors.Is(err, plumbing.ErrObjectNotFound) || errors.Is(err, object.ErrParentNotFound) || errors.Is(err, io.EOF) {
			return nil, refuse("this repository has no revision %q; git_branches and git_log show what there is", revision)
		}
		return nil, explain(err)
	}
	c, err := r.git.CommitObject(*hash)
	return c, explain(err)
}

// Commit describes a commit.
type Commit struct {
	Hash    string    `json:"hash"`
	Parents []string  `json:"parents,omitempty"`
	Author  string    `json:"author"`
	Email   string    `json:"email,omitzero"`
	Time    time.Time `json:"time" jsonschema:"time of the commit"`
	Message string    `json:"message" jsonschema:"message, up to 8 KiB"`
}

const maxMessage = 8 << 10

func describe(c *object.Commit) Commit {
	d := Commit{Hash: c.Hash.String(), Author: line(c.Author.Name), Email: line(c.Author.Email), Time: c.Committer.When.UTC(), Message: utf8Of(c.Message, maxMessage)}
	for _, p := range c.ParentHashes {
		d.Parents = append(d.Parents, p.String())
	}
	if y := d.Time.Year(); y < 0 || y > 9999 { // JSON has no such year
		d.Time = time.Time{}
	}
	return d
}

func line(s string) string { return utf8Of(s, 200) }

// utf8Of makes valid UTF-8 of a repository's text, which may hold any bytes, and cuts it.
func utf8Of(s string, most int) string {
	return strings.ToValidUTF8(s[:min(len(s), most)], "\uFFFD")
}

// Branch is a branch or tag.
type Branch struct {
	Name    string `json:"name"`
	Kind    string `json:"kind" jsonschema:"branch, remote or tag"`
	Commit  string `json:"commit"`
	Current bool   `json:"current,omitzero" jsonschema:"set if it is checked out in this worktree"`
}

// Branches lists branches, remote branches and tags, at most limit.
func (r *Repo) Branches(limit int) (all []Branch, more bool, err error) {
	current, _, err := r.head()
	if err != nil {
		return nil, false, explain(err)
	}
	refs, err := r.git.References()
	if err != nil {
		return nil, false, explain(err)
	}
	defer refs.Close()
	all = []Branch{}
	err = refs.ForEach(func(ref *plumbing.Reference) error {
		b := Branch{Name: utf8Of(ref.Name().Short(), maxRevision), Commit: ref.Hash().String()}
		switch n := ref.Name(); {
		case ref.Type() != plumbing.HashReference:
			return nil
		case n.IsBranch():
			b.Kind, b.Current = "branch", b.Name == current
		case n.IsRemote():
			b.Kind = "remote"
		case n.IsTag():
			b.Kind = "tag"
		default:
			return nil
		}
		all = append(all, b)
		return nil
	})
	slices.SortFunc(all, func(a, b Branch) int { return strings.Compare(a.Kind+a.Name, b.Kind+b.Name) })
	if more = len(all) > limit; more {
		all = all[:limit]
	}
	return all, more, explain(err)
}
