package workspace

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/workspace/internal/file"
	"github.com/busbar-mcp/busbar/services/workspace/internal/repo"
	"github.com/busbar-mcp/busbar/services/workspace/internal/root"
)

// gitTime is the time limit of one git call.
//
//limit:files time of a call of a `git_` tool | the tool fails
const gitTime = 25 * time.Second

// maxPatch is the largest diff that a call returns, in bytes.
//
//limit:files a diff of git | it is cut
const maxPatch = 256 << 10

// RepoIn names a repository, and a part of it.
type RepoIn struct {
	Path string `json:"path,omitzero" jsonschema:"file or directory in a git repository: main/src covers everything below it, main/ the whole repository there; may be omitted if there is only one root"`
}

// at runs f with the repository that contains path open.
func at(ctx context.Context, v *root.View, path string, f func(ctx context.Context, r *repo.Repo, rel string) error) error {
	ctx, cancel := context.WithTimeout(ctx, gitTime)
	defer cancel()
	p, err := v.Find(path)
	if err != nil {
		return err
	}
	r, rel, err := repo.Open(ctx, p)
	if err != nil {
		return err
	}
	defer r.Close()
	return f(ctx, r, rel)
}

// StatusIn holds the arguments of git_status.
type StatusIn struct {
	RepoIn
	Limit int `json:"limit,omitzero" jsonschema:"maximum number of changes, up to 2000; default 200"`
}

func gitStatus(ctx context.Context, v *root.View, in StatusIn) (out repo.Status, err error) {
	limit, err := page(in.Limit, 200, 2000)
	if err != nil {
		return out, err
	}
	err = at(ctx, v, in.Path, func(_ context.Context, r *repo.Repo, rel string) (err error) {
		out, err = r.Status(rel, limit)
		return err
	})
	return out, err
}

// LogIn holds the arguments of git_log.
type LogIn struct {
	RepoIn
	Revision string `json:"revision,omitzero" jsonschema:"branch, tag or commit to start at, or one such as HEAD~3; default HEAD"`
	Skip     int    `json:"skip,omitzero" jsonschema:"number of commits to skip: nextSkip of the previous page"`
	Limit    int    `json:"limit,omitzero" jsonschema:"maximum number of commits, up to 200; default 20"`
}

// LogOut is the result of git_log.
type LogOut struct {
	Commits  []repo.Commit `json:"commits"`
	NextSkip int           `json:"nextSkip,omitzero" jsonschema:"skip for the next page; absent on the last page"`
}

func gitLog(ctx context.Context, v *root.View, in LogIn) (out LogOut, err error) {
	limit, err := page(in.Limit, 20, 200)
	if err != nil {
		return out, err
	}
	if in.Skip < 0 || in.Skip > 100_000 {
		return out, service.Errorf("skip is %d; give a number from 0 to 100000", in.Skip)
	}
	err = at(ctx, v, in.Path, func(_ context.Context, r *repo.Repo, rel string) error {
		all, more, err := r.Log(in.Revision, rel, in.Skip, limit)
		if out.Commits = all; more {
			out.NextSkip = in.Skip + len(all)
		}
		return err
	})
	return out, err
}

// DiffIn holds the arguments of git_diff.
type DiffIn struct {
	RepoIn
	Staged bool   `json:"staged,omitzero" jsonschema:"show staged changes; without staged and from, the unstaged changes are shown"`
	From   string `json:"from,omitzero" jsonschema:"older revision; compared with to, or with the files as they are now"`
	To     string `json:"to,omitzero" jsonschema:"newer revision"`
}

// DiffOut is the result of git_diff.
type DiffOut struct {
	Diff  string `json:"diff" jsonschema:"unified diff with paths relative to the repository; empty if there is no difference"`
	Files int    `json:"files"`
	Note  string `json:"note,omitzero" jsonschema:"says what is missing from this result"`
}

const tooMuch = "the result is incomplete, because it is too large; give a path"

func gitDiff(ctx context.Context, v *root.View, in DiffIn) (out DiffOut, err error) {
	if in.Staged && in.From != "" || in.To != "" && in.From == "" {
		return out, service.Errorf("the arguments do not fit together; give staged, or from, or from and to")
	}
	err = at(ctx, v, in.Path, func(_ context.Context, r *repo.Repo, rel string) (err error) {
		var d repo.Diff
		switch {
		case in.From != "":
			d, err = r.DiffCommits(in.From, in.To, rel, maxPatch)
		case in.Staged:
			d, err = r.DiffStaged(rel, maxPatch)
		default:
			d, err = r.DiffUnstaged(rel, maxPatch)
		}
		if out = (DiffOut{Diff: d.Text, Files: d.Files}); d.Cut {
			out.Note = tooMuch
		}
		return err
	})
	return out, err
}

// ShowIn holds the arguments of git_show.
type ShowIn struct {
	RepoIn
	Revision string `json:"revision,omitzero" jsonschema:"branch, tag or commit; default HEAD"`
	Content  bool   `json:"content,omitzero" jsonschema:"show the file at path as it is in that commit, instead of the commit's changes"`
}

// ShowOut is the result of git_show.
type ShowOut struct {
	Commit *repo.Commit `json:"commit,omitzero"`
	Diff   string       `json:"diff,omitzero" jsonschema:"changes of the commit against its first parent"`
	Files  int          `json:"files,omitzero"`
	Text   *string      `json:"text,omitzero" jsonschema:"the file, if content is set"`
	Note   string       `json:"note,omitzero" jsonschema:"says what is missing from this result"`
}

func gitShow(ctx context.Context, v *root.View, in ShowIn) (out ShowOut, err error) {
	err = at(ctx, v, in.Path, func(_ context.Context, r *repo.Repo, rel string) error {
		if !in.Content {
			c, d, err := r.Show(in.Revision, rel, maxPatch)
			if out = (ShowOut{Commit: &c, Diff: d.Text, Files: d.Files}); d.Cut {
				out.Note = tooMuch
			}
			return err
		}
		data, err := r.FileOf(in.Revision, rel)
		switch {
		case err != nil:
			return err
		case !file.IsText(data):
			return service.Errorf("the file is not text, so it is not shown; it has %d bytes", len(data))
		case len(data) > maxRead:
			out.Note = fmt.Sprintf("the first %d of %d bytes", maxRead, len(data))
			data = data[:maxRead]
		}
		text := strings.ToValidUTF8(string(data), "")
		out.Text = &text
		return nil
	})
	return out, err
}

// BlameIn holds the arguments of git_blame.
type BlameIn struct {
	PathIn
	Revision  string `json:"revision,omitzero" jsonschema:"branch, tag or commit; default HEAD"`
	StartLine int    `json:"startLine,omitzero" jsonschema:"first line, from 1"`
	Limit     int    `json:"limit,omitzero" jsonschema:"maximum number of lines, up to 1000; default 200"`
}

// BlameOut is the result of git_blame.
type BlameOut struct {
	Lines    []repo.Line `json:"lines"`
	NextLine int         `json:"nextLine,omitzero" jsonschema:"startLine for the next part; absent at the end"`
}

func gitBlame(ctx context.Context, v *root.View, in BlameIn) (out BlameOut, err error) {
	limit, err := page(in.Limit, 200, 1000)
	if err != nil {
		return out, err
	}
	err = at(ctx, v, in.Path, func(_ context.Context, r *repo.Repo, rel string) error {
		lines, more, err := r.Blame(in.Revision, rel, max(in.StartLine, 1), limit)
		if out.Lines = lines; more && len(lines) > 0 {
			out.NextLine = lines[len(lines)-1].Line + 1
		}
		return err
	})
	return out, err
}

// BranchesOut is the result of git_branches.
type BranchesOut struct {
	Branches  []repo.Branch `json:"branches"`
	Worktrees []repo.Tree   `json:"worktrees" jsonschema:"worktrees except the first"`
	Note      string        `json:"note,omitzero" jsonschema:"says what is missing from this result"`
}

func gitBranches(ctx context.Context, v *root.View, in RepoIn) (out BranchesOut, err error) {
	const most = 500
	err = at(ctx, v, in.Path, func(_ context.Context, r *repo.Repo, _ string) (err error) {
		var more bool
		if out.Branches, more, err = r.Branches(most); err != nil {
			return err
		}
		if more {
			out.Note = fmt.Sprintf("only the first %d", most)
		}
		out.Worktrees, err = r.Trees()
		return err
	})
	return out, err
}

// AddIn holds the arguments of git_add.
type AddIn struct {
	Paths []string `json:"paths" jsonschema:"files and directories of one repository, up to 1000; missing ones are staged as deleted"`
}

func gitAdd(ctx context.Context, v *root.View, in AddIn) (out repo.Status, err error) {
	if len(in.Paths) == 0 || len(in.Paths) > 1000 {
		return out, service.Errorf("there are %d paths; give from 1 to 1000", len(in.Paths))
	}
	err = at(ctx, v, in.Paths[0], func(ctx context.Context, r *repo.Repo, _ string) error {
		var all []string
		for _, path := range in.Paths {
			rel, err := within(v, r, path)
			if err != nil {
				return err
			}
			all = append(all, rel)
		}
		if err := r.Change(ctx, func() error { return r.Add(all) }); err != nil {
			return err
		}
		out, err = r.Status(".", 200)
		return err
	})
	return out, err
}

// within returns a path relative to the top of its repository.
func within(v *root.View, r *repo.Repo, path string) (string, error) {
	p, err := v.Find(path)
	if err != nil {
		return "", err
	}
	rel, ok := r.Top().Below(p)
	if !ok {
		return "", service.Errorf("%s is not in the repository of the first path; make one call for each repository", p)
	}
	return rel, nil
}

// CommitIn holds the arguments of git_commit.
type CommitIn struct {
	RepoIn
	Message    string `json:"message" jsonschema:"what the commit changes and why: a subject line, an empty line, then details"`
	Author     string `json:"author,omitzero" jsonschema:"author of the change, as Name <address>; default: the caller"`
	All        bool   `json:"all,omitzero" jsonschema:"stage all changes of tracked files first"`
	AllowEmpty bool   `json:"allowEmpty,omitzero" jsonschema:"allow a commit without changes"`
}

var authorGrammar = regexp.MustCompile(`^([^<>\n]{1,200}) <([^<>\s]{1,200})>$`)

func (w *workspace) commit(ctx context.Context, call *service.Call, v *root.View, in CommitIn) (out repo.Commit, err error) {
	clean := strings.NewReplacer("<", "", ">", "", "\n", "", "\r", "", "\x00", "").Replace(call.Principal())
	name, address := clean, strings.ReplaceAll(clean, " ", ".")+"@busbar.invalid"
	if in.Author != "" {
		m := authorGrammar.FindStringSubmatch(in.Author)
		if m == nil {
			return out, service.Errorf("author is not valid; write it as Ada Lovelace <ada@example.com>")
		}
		name, address = m[1], m[2]
	}
	err = at(ctx, v, in.Path, func(ctx context.Context, r *repo.Repo, _ string) error {
		return r.Change(ctx, func() (err error) {
			out, err = r.Commit(in.Message, name, address, in.All, in.AllowEmpty)
			return err
		})
	})
	return out, err
}

// CheckoutIn holds the arguments of git_checkout.
type CheckoutIn struct {
	RepoIn
	Revision string `json:"revision" jsonschema:"branch; a tag or commit is checked out without a branch"`
	Create   bool   `json:"create,omitzero" jsonschema:"create the branch at the current commit; uncommitted changes stay"`
}

func gitCheckout(ctx context.Context, v *root.View, in CheckoutIn) (out repo.Status, err error) {
	err = at(ctx, v, in.Path, func(ctx context.Context, r *repo.Repo, _ string) error {
		if err := r.Change(ctx, func() error { return r.Checkout(in.Revision, in.Create) }); err != nil {
			return err
		}
		out, err = r.Status(".", 200)
		return err
	})
	return out, err
}

// WorktreeIn holds the arguments of git_worktree.
type WorktreeIn struct {
	RepoIn
	Directory string `json:"directory" jsonschema:"directory of the worktree, in the same root as the repository; a new worktree is created there"`
	Branch    string `json:"branch,omitzero" jsonschema:"branch to check out there; no other worktree may have it checked out"`
	Create    bool   `json:"create,omitzero" jsonschema:"create the branch at the current commit"`
	Remove    bool   `json:"remove,omitzero" jsonschema:"remove the worktree, if everything in it is committed"`
}

func gitWorktree(ctx context.Context, v *root.View, in WorktreeIn) (out BranchesOut, err error) {
	if in.Remove == (in.Branch != "") {
		return out, service.Errorf("the arguments do not fit together; give a branch to create a worktree, or remove to remove one")
	}
	directory, err := v.Find(in.Directory)
	if err != nil {
		return out, err
	}
	err = at(ctx, v, in.Path, func(ctx context.Context, r *repo.Repo, _ string) error {
		return r.Change(ctx, func() error {
			if in.Remove {
				return r.RemoveTree(ctx, directory)
			}
			return r.AddTree(ctx, directory, in.Branch, in.Create)
		})
	})
	if err != nil {
		return out, err
	}
	return gitBranches(ctx, v, in.RepoIn)
}

func (w *workspace) addGit() {
	add(w, reader("git_status", "Git status", "Shows the branch, the commit and the changed files of a git repository, like git status."), gitStatus)
	add(w, reader("git_log", "Git log", "Lists commits back from a revision, newest first; with a path, only commits that changed something there."), gitLog)
	add(w, reader("git_diff", "Git diff", "Shows a unified diff of unstaged changes, of staged changes, or between revisions."), gitDiff)
	add(w, reader("git_show", "Git show", "Shows a commit with its changes; with content, a file as it was in that commit."), gitShow)
	add(w, reader("git_blame", "Git blame", "Shows for each line of a file its commit, author and time."), gitBlame)
	add(w, reader("git_branches", "Git branches", "Lists branches, remote branches, tags and worktrees."), gitBranches)
	add(w, writer("git_add", "Git add", "Stages files for the next commit, as they are now. The repository's filters do not run, so a file with a filter is refused.", false), gitAdd)
	addCall(w, writer("git_commit", "Git commit", "Commits the staged changes. The repository's hooks do not run, and commits are not signed.", false), w.commit)
	add(w, writer("git_checkout", "Git checkout", "Checks out a branch, a tag or a commit, or creates a branch. It never overwrites uncommitted changes: if they are in the way, nothing changes.", false), gitCheckout)
	add(w, writer("git_worktree", "Git worktree", "Creates a worktree of a repository, with a branch, in a directory of its own; or removes one in which everything is committed.", false), gitWorktree)
}
