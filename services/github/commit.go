package github

import (
	"context"

	gh "github.com/google/go-github/v92/github"

	"github.com/busbar-mcp/busbar/services/github/internal/argument"
	"github.com/busbar-mcp/busbar/services/github/internal/limit"
	"github.com/busbar-mcp/busbar/services/github/internal/plain"
)

// ListCommitsIn holds the arguments of listCommits.
type ListCommitsIn struct {
	RepoIn
	Ref    argument.Ref  `json:"ref,omitzero" jsonschema:"Branch, tag or commit to start from; the default branch if omitted"`
	Path   argument.Path `json:"path,omitzero" jsonschema:"Only commits that touch this file or directory"`
	Author argument.Name `json:"author,omitzero" jsonschema:"Only commits of this login or e-mail address"`
	Since  argument.Time `json:"since,omitzero" jsonschema:"Only commits after this time"`
	Until  argument.Time `json:"until,omitzero" jsonschema:"Only commits before this time"`
	Paging
}

// GetCommitIn holds the arguments of getCommit.
type GetCommitIn struct {
	RepoIn
	Ref argument.Ref `json:"ref" jsonschema:"The commit's SHA, or a branch or tag for its last commit"`
	Paging
}

// Commit is an entry of listCommits.
type Commit struct {
	SHA     string   `json:"sha"`
	Message string   `json:"message"`
	Author  string   `json:"author" jsonschema:"login of the author, or the name without an account"`
	Date    string   `json:"date,omitzero" jsonschema:"time of authoring"`
	URL     string   `json:"url" jsonschema:"web page"`
	Parents []string `json:"parents" jsonschema:"SHAs"`
}

// CommitWithFiles is the result of getCommit.
type CommitWithFiles struct {
	Commit
	Additions int    `json:"additions"`
	Deletions int    `json:"deletions"`
	Files     []File `json:"files" jsonschema:"changed files"`
	NextPage  int    `json:"nextPage,omitzero" jsonschema:"page with more of its files; absent on the last page"`
}

// File is a changed file.
type File struct {
	Path         string `json:"path"`
	PreviousPath string `json:"previousPath,omitzero" jsonschema:"old path of a renamed file"`
	Status       string `json:"status" jsonschema:"added, removed, modified, renamed, copied, changed or unchanged"`
	Additions    int    `json:"additions"`
	Deletions    int    `json:"deletions"`
	Patch        string `json:"patch,omitzero" jsonschema:"unified diff, shortened; absent for binary and very large files"`
}

func (k *kit) addCommits() {
	add(k, "listCommits", "List commits", "Lists the commits of a branch, newest first; optionally only the commits to one file, by one author or in a period.", listCommits)
	add(k, "getCommit", "Get commit", "Returns a commit with the files it changes and their diffs.", getCommit)
}

func listCommits(ctx context.Context, api *gh.Client, in ListCommitsIn) (out List[Commit], err error) {
	found, resp, err := api.Repositories.ListCommits(ctx, string(in.Owner), string(in.Repo), &gh.CommitsListOptions{
		SHA: string(in.Ref), Path: string(in.Path), Author: string(in.Author),
		Since: in.Since.Time(), Until: in.Until.Time(), ListOptions: in.options(),
	})
	if err != nil {
		return out, err
	}
	return list(found, resp, showCommit), nil
}

func showCommit(c *gh.RepositoryCommit, budget *plain.Budget) Commit {
	author := c.GetAuthor().GetLogin()
	if author == "" {
		author = c.GetCommit().GetAuthor().GetName()
	}
	return Commit{
		SHA: line(c.GetSHA()), Message: budget.Text(c.GetCommit().GetMessage(), limit.Comment), Author: line(author),
		Date: when(c.GetCommit().GetAuthor().GetDate()), URL: line(c.GetHTMLURL()), Parents: lines(c.Parents, (*gh.Commit).GetSHA),
	}
}

func getCommit(ctx context.Context, api *gh.Client, in GetCommitIn) (out CommitWithFiles, err error) {
	if in.Ref == "" {
		return out, invalid("ref is missing; give a commit's SHA, a branch or a tag")
	}
	o := in.options()
	c, resp, err := api.Repositories.GetCommit(ctx, string(in.Owner), string(in.Repo), in.Ref.Segment(), &o)
	if err != nil {
		return out, err
	}
	if c.GetSHA() == "" {
		return out, errStrange
	}
	budget := plain.Budget(limit.Output)
	return CommitWithFiles{
		Commit: showCommit(c, &budget), Additions: c.GetStats().GetAdditions(), Deletions: c.GetStats().GetDeletions(),
		Files: items(c.Files, showFile), NextPage: resp.NextPage,
	}, nil
}

func showFile(f *gh.CommitFile, budget *plain.Budget) File {
	return File{
		Path: plain.Line(f.GetFilename(), limit.Path), PreviousPath: plain.Line(f.GetPreviousFilename(), limit.Path), Status: line(f.GetStatus()),
		Additions: f.GetAdditions(), Deletions: f.GetDeletions(), Patch: budget.Text(f.GetPatch(), limit.Patch),
	}
}
