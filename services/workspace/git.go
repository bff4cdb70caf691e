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

// gitTime bounds the work of one call of git.
const gitTime = 25 * time.Second

// maxPatch is the most bytes of a diff that a call returns.
const maxPatch = 256 << 10

// RepoIn names a repository, and a part of it.
type RepoIn struct {
	Path string `json:"path,omitzero" jsonschema:"file or directory in a git repository: main/src means what is below it, main/ all of the repository there; the only root if omitted"`
}

// at opens the repository that a path is in, for as long as f runs.
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

// StatusIn is what git_status takes.
type StatusIn struct {
	RepoIn
	Limit int `json:"limit,omitzero" jsonschema:"most changes, up to 2000; 200 if not given"`
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

// LogIn is what git_log takes.
type LogIn struct {
	RepoIn
	Revision string `json:"revision,omitzero" jsonschema:"branch, tag, commit or HEAD~3 to begin at; HEAD if omitted"`
	Skip     int    `json:"skip,omitzero" jsonschema:"commits to leave out: nextSkip of the page before"`
	Limit    int    `json:"limit,omitzero" jsonschema:"most commits, up to 200; 20 if not given"`
}

// LogOut is what git_log returns.
type LogOut struct {
	Commits  []repo.Commit `json:"commits"`
	NextSkip int           `json:"nextSkip,omitzero" jsonschema:"skip of the next page; absent on the last"`
}

func gitLog(ctx context.Context, v *root.View, in LogIn) (out LogOut, err error) {
	limit, err := page(in.Limit, 20, 200)
	if err != nil {
		return out, err
	}
	if in.Skip < 0 || in.Skip > 100_000 {
		return out, service.Errorf("skip is from 0 to 100000")
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

// DiffIn is what git_diff takes.
type DiffIn struct {
	RepoIn
	Staged bool   `json:"staged,omitzero" jsonschema:"what the next commit will change; without it and from, what is not staged"`
	From   string `json:"from,omitzero" jsonschema:"revision to compare from, with to, or with the files as they are now"`
	To     string `json:"to,omitzero" jsonschema:"revision to compare with"`
}

// DiffOut is what git_diff returns.
type DiffOut struct {
	Diff  string `json:"diff" jsonschema:"unified diff, with paths from the repository's top; empty for no difference"`
	Files int    `json:"files"`
	Note  string `json:"note,omitzero" jsonschema:"what is left out"`
}

const tooMuch = "there is more than fits: ask with a path"

func gitDiff(ctx context.Context, v *root.View, in DiffIn) (out DiffOut, err error) {
	if in.Staged && in.From != "" || in.To != "" && in.From == "" {
		return out, service.Errorf("give staged, or from, or from and to")
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

// ShowIn is what git_show takes.
type ShowIn struct {
	RepoIn
	Revision string `json:"revision,omitzero" jsonschema:"branch, tag or commit; HEAD if omitted"`
	Content  bool   `json:"content,omitzero" jsonschema:"the file at path as it is in that commit, and not what the commit changed"`
}

// ShowOut is what git_show returns.
type ShowOut struct {
	Commit *repo.Commit `json:"commit,omitzero"`
	Diff   string       `json:"diff,omitzero" jsonschema:"what the commit changed against its first parent"`
	Files  int          `json:"files,omitzero"`
	Text   *string      `json:"text,omitzero" jsonschema:"the file, with content"`
	Note   string       `json:"note,omitzero" jsonschema:"what is left out"`
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
			return service.Errorf("the file is not text: it has %d bytes", len(data))
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

// BlameIn is what git_blame takes.
type BlameIn struct {
	PathIn
	Revision  string `json:"revision,omitzero" jsonschema:"branch, tag or commit; HEAD if omitted"`
	StartLine int    `json:"startLine,omitzero" jsonschema:"first line, from 1"`
	Limit     int    `json:"limit,omitzero" jsonschema:"most lines, up to 1000; 200 if not given"`
}

// BlameOut is what git_blame returns.
type BlameOut struct {
	Lines    []repo.Line `json:"lines"`
	NextLine int         `json:"nextLine,omitzero" jsonschema:"startLine to go on with; absent at the end"`
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

// BranchesOut is what git_branches returns.
type BranchesOut struct {
	Branches  []repo.Branch `json:"branches"`
	Worktrees []repo.Tree   `json:"worktrees" jsonschema:"worktrees besides the first"`
	Note      string        `json:"note,omitzero" jsonschema:"what is left out"`
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

// AddIn is what git_add takes.
type AddIn struct {
	Paths []string `json:"paths" jsonschema:"files and directories of one repository, up to 1000; what is gone is staged as deleted"`
}

func gitAdd(ctx context.Context, v *root.View, in AddIn) (out repo.Status, err error) {
	if len(in.Paths) == 0 || len(in.Paths) > 1000 {
		return out, service.Errorf("paths are from 1 to 1000")
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

// within is a path seen from the top of a repository that it is in.
func within(v *root.View, r *repo.Repo, path string) (string, error) {
	p, err := v.Find(path)
	if err != nil {
		return "", err
	}
	rel, ok := r.Top().Below(p)
	if !ok {
		return "", service.Errorf("%s is not in the repository of the first path", p)
	}
	return rel, nil
}

// CommitIn is what git_commit takes.
type CommitIn struct {
	RepoIn
	Message    string `json:"message" jsonschema:"what was changed and why: a line, and after an empty one the rest"`
	Author     string `json:"author,omitzero" jsonschema:"Name <address> of who made the change; without it, who calls"`
	All        bool   `json:"all,omitzero" jsonschema:"stage what is tracked and has changed first"`
	AllowEmpty bool   `json:"allowEmpty,omitzero" jsonschema:"make a commit that changes nothing"`
}

var authorGrammar = regexp.MustCompile(`^([^<>\n]{1,200}) <([^<>\s]{1,200})>$`)

func (w *workspace) commit(ctx context.Context, call *service.Call, v *root.View, in CommitIn) (out repo.Commit, err error) {
	clean := strings.NewReplacer("<", "", ">", "", "\n", "", "\r", "", "\x00", "").Replace(call.Principal())
	name, address := clean, strings.ReplaceAll(clean, " ", ".")+"@busbar.invalid"
	if in.Author != "" {
		m := authorGrammar.FindStringSubmatch(in.Author)
		if m == nil {
			return out, service.Errorf("author is written Ada Lovelace <ada@example.com>")
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

// CheckoutIn is what git_checkout takes.
type CheckoutIn struct {
	RepoIn
	Revision string `json:"revision" jsonschema:"branch; or a tag or commit, which is checked out without a branch"`
	Create   bool   `json:"create,omitzero" jsonschema:"make the branch, at the commit that is checked out; what is not committed stays"`
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

// WorktreeIn is what git_worktree takes.
type WorktreeIn struct {
	RepoIn
	Directory string `json:"directory" jsonschema:"directory of the worktree, in the root of the repository; a new one is made there"`
	Branch    string `json:"branch,omitzero" jsonschema:"branch to check out there, which no other worktree has"`
	Create    bool   `json:"create,omitzero" jsonschema:"make the branch, at the commit that is checked out"`
	Remove    bool   `json:"remove,omitzero" jsonschema:"remove the worktree, if all in it is committed"`
}

func gitWorktree(ctx context.Context, v *root.View, in WorktreeIn) (out BranchesOut, err error) {
	if in.Remove == (in.Branch != "") {
		return out, service.Errorf("give a branch to make a worktree, or remove to remove one")
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
	add(w, reader("git_status", "Git status", "Tells branch, commit and changed files of a git repository, as git status does."), gitStatus)
	add(w, reader("git_log", "Git log", "Lists commits from a revision back, the newest first; with a path those that changed something there."), gitLog)
	add(w, reader("git_diff", "Git diff", "Shows differences as a unified diff: what is not staged, what is staged, or between revisions."), gitDiff)
	add(w, reader("git_show", "Git show", "Shows a commit with what it changed; with content, a file as it was in a commit."), gitShow)
	add(w, reader("git_blame", "Git blame", "Tells for each line of a file which commit it comes from, who made it and when."), gitBlame)
	add(w, reader("git_branches", "Git branches", "Lists branches, branches of remotes, tags and worktrees."), gitBranches)
	add(w, writer("git_add", "Git add", "Stages files for the next commit, as they are now. Filters of the repository are not run: files that have one are refused.", false), gitAdd)
	addCall(w, writer("git_commit", "Git commit", "Makes a commit of what is staged. Hooks of the repository are not run, and commits are not signed.", false), w.commit)
	add(w, writer("git_checkout", "Git checkout", "Checks out a branch, a tag or a commit, or makes a branch. What is not committed is never overwritten: where it is in the way, nothing is changed.", false), gitCheckout)
	add(w, writer("git_worktree", "Git worktree", "Makes a worktree of a repository in a directory of its own, with a branch, or removes one in which all is committed.", false), gitWorktree)
}
