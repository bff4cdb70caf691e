package github

import (
	"context"
	"fmt"

	gh "github.com/google/go-github/v92/github"

	"github.com/busbar-mcp/busbar/services/github/internal/argument"
	"github.com/busbar-mcp/busbar/services/github/internal/limit"
	"github.com/busbar-mcp/busbar/services/github/internal/plain"
)

// ListPullRequestsIn holds the arguments of listPullRequests.
type ListPullRequestsIn struct {
	RepoIn
	State     argument.State     `json:"state,omitzero" jsonschema:"open (default), closed or all"`
	Base      argument.Ref       `json:"base,omitzero" jsonschema:"Only pull requests into this branch"`
	Head      argument.Head      `json:"head,omitzero" jsonschema:"Only pull requests from this branch, as owner:branch"`
	Sort      argument.PullSort  `json:"sort,omitzero" jsonschema:"created (default), updated, popularity or long-running"`
	Direction argument.Direction `json:"direction,omitzero" jsonschema:"desc (default, with created) or asc"`
	Paging
}

// PullRequest is a pull request. Some fields are missing in lists, because GitHub computes
// them only for a single one.
type PullRequest struct {
	Number         int      `json:"number"`
	Title          string   `json:"title"`
	State          string   `json:"state" jsonschema:"open or closed"`
	Draft          bool     `json:"draft"`
	Merged         bool     `json:"merged"`
	MergedAt       string   `json:"mergedAt,omitzero"`
	Mergeable      string   `json:"mergeable,omitzero" jsonschema:"clean, dirty, blocked, behind, unstable, draft or unknown; absent in lists"`
	Author         string   `json:"author"`
	Labels         []string `json:"labels"`
	Reviewers      []string `json:"reviewers" jsonschema:"logins of the requested reviewers"`
	Base           Side     `json:"base" jsonschema:"target branch"`
	Head           Side     `json:"head" jsonschema:"source branch"`
	Commits        int      `json:"commits,omitzero"`
	ChangedFiles   int      `json:"changedFiles,omitzero"`
	Additions      int      `json:"additions,omitzero"`
	Deletions      int      `json:"deletions,omitzero"`
	Comments       int      `json:"comments,omitzero" jsonschema:"number of comments; see listComments"`
	ReviewComments int      `json:"reviewComments,omitzero" jsonschema:"number of comments on lines; see listReviewComments"`
	CreatedAt      string   `json:"createdAt,omitzero"`
	UpdatedAt      string   `json:"updatedAt,omitzero"`
	ClosedAt       string   `json:"closedAt,omitzero"`
	URL            string   `json:"url" jsonschema:"web page"`
	Body           string   `json:"body" jsonschema:"Markdown; shortened in lists"`
}

// Side is a branch at one end of a pull request.
type Side struct {
	Repository string `json:"repository,omitzero" jsonschema:"owner/name; absent if it was deleted"`
	Ref        string `json:"ref"`
	SHA        string `json:"sha"`
}

// DiffIn holds the arguments of getPullRequestDiff.
type DiffIn struct {
	NumberIn
	MaxBytes argument.Bytes `json:"maxBytes,omitzero" jsonschema:"Maximum number of bytes to return"`
}

// Diff is the result of getPullRequestDiff.
type Diff struct {
	Diff string `json:"diff" jsonschema:"unified diff"`
	Size int    `json:"size" jsonschema:"size of the whole diff in bytes"`
	Note string `json:"note,omitzero" jsonschema:"says what is missing from this result"`
}

// ReviewComment is an entry of listReviewComments.
type ReviewComment struct {
	Comment
	Path      string `json:"path"`
	Line      int    `json:"line,omitzero" jsonschema:"line number; absent if the line is no longer in the diff"`
	Side      string `json:"side,omitzero" jsonschema:"LEFT for a removed line, RIGHT for an added or unchanged line"`
	InReplyTo int64  `json:"inReplyTo,omitzero" jsonschema:"id of the comment it answers"`
	DiffHunk  string `json:"diffHunk" jsonschema:"part of the diff that the comment refers to"`
}

// Review is an entry of listReviews.
type Review struct {
	ID          int64  `json:"id"`
	Author      string `json:"author"`
	State       string `json:"state" jsonschema:"APPROVED, CHANGES_REQUESTED, COMMENTED, DISMISSED or PENDING"`
	SubmittedAt string `json:"submittedAt,omitzero"`
	SHA         string `json:"sha" jsonschema:"reviewed commit"`
	URL         string `json:"url" jsonschema:"web page"`
	Body        string `json:"body" jsonschema:"Markdown"`
}

func (k *kit) addPulls() {
	add(k, "listPullRequests", "List pull requests", "Lists a repository's pull requests.", listPullRequests)
	add(k, "getPullRequest", "Get pull request", "Returns a pull request with its whole text, its branches, its size and whether it can be merged.", getPullRequest)
	add(k, "getPullRequestDiff", "Get pull request diff",
		"Returns the whole diff of a pull request as text. For a large one, use listPullRequestFiles, which has pages.", getPullRequestDiff)
	add(k, "listPullRequestFiles", "List pull request files", "Lists the files that a pull request changes, each with its diff.", listPullRequestFiles)
	add(k, "listReviews", "List reviews", "Lists the reviews of a pull request: who approved it or asked for changes.", listReviews)
	add(k, "listReviewComments", "List review comments",
		"Lists the comments on lines of a pull request's diff. For the comments under it, use listComments.", listReviewComments)
}

func listPullRequests(ctx context.Context, api *gh.Client, in ListPullRequestsIn) (out List[PullRequest], err error) {
	found, resp, err := api.PullRequests.List(ctx, string(in.Owner), string(in.Repo), &gh.PullRequestListOptions{
		State: string(in.State), Base: string(in.Base), Head: string(in.Head), Sort: string(in.Sort), Direction: string(in.Direction), ListOptions: in.options(),
	})
	if err != nil {
		return out, err
	}
	return list(found, resp, func(p *gh.PullRequest, budget *plain.Budget) PullRequest { return showPull(p, budget, limit.Excerpt) }), nil
}

func getPullRequest(ctx context.Context, api *gh.Client, in NumberIn) (out PullRequest, err error) {
	p, _, err := api.PullRequests.Get(ctx, string(in.Owner), string(in.Repo), int(in.Number))
	if err != nil {
		return out, err
	}
	if p.GetNumber() == 0 {
		return out, errStrange
	}
	budget := plain.Budget(limit.Output)
	return showPull(p, &budget, limit.Text), nil
}

func showPull(p *gh.PullRequest, budget *plain.Budget, most int) PullRequest {
	return PullRequest{
		Number: p.GetNumber(), Title: line(p.GetTitle()), State: line(p.GetState()), Draft: p.GetDraft(),
		Merged: p.GetMerged() || !p.GetMergedAt().IsZero(), MergedAt: when(p.GetMergedAt()), Mergeable: line(p.GetMergeableState()),
		Author: line(p.GetUser().GetLogin()), Labels: lines(p.Labels, (*gh.Label).GetName), Reviewers: lines(p.RequestedReviewers, (*gh.User).GetLogin),
		Base: side(p.GetBase()), Head: side(p.GetHead()),
		Commits: p.GetCommits(), ChangedFiles: p.GetChangedFiles(), Additions: p.GetAdditions(), Deletions: p.GetDeletions(),
		Comments: p.GetComments(), ReviewComments: p.GetReviewComments(),
		CreatedAt: when(p.GetCreatedAt()), UpdatedAt: when(p.GetUpdatedAt()), ClosedAt: when(p.GetClosedAt()),
		URL: line(p.GetHTMLURL()), Body: budget.Text(p.GetBody(), most),
	}
}

func side(b *gh.PullRequestBranch) Side {
	return Side{Repository: line(b.GetRepo().GetFullName()), Ref: line(b.GetRef()), SHA: line(b.GetSHA())}
}

func getPullRequestDiff(ctx context.Context, api *gh.Client, in DiffIn) (out Diff, err error) {
	diff, _, err := api.PullRequests.GetRaw(ctx, string(in.Owner), string(in.Repo), int(in.Number), gh.RawOptions{Type: gh.Diff})
	if err != nil {
		return out, err
	}
	most := int(in.MaxBytes)
	if most == 0 {
		most = limit.DefaultContent
	}
	kept := plain.Cut(diff, most)
	out = Diff{Diff: plain.Escape(kept), Size: len(diff)}
	if len(kept) < len(diff) {
		out.Note = fmt.Sprintf("truncated: %d of %d bytes; use listPullRequestFiles, which has pages", len(kept), len(diff))
	}
	return out, nil
}

func listPullRequestFiles(ctx context.Context, api *gh.Client, in NumberListIn) (out List[File], err error) {
	o := in.options()
	found, resp, err := api.PullRequests.ListFiles(ctx, string(in.Owner), string(in.Repo), int(in.Number), &o)
	if err != nil {
		return out, err
	}
	return list(found, resp, showFile), nil
}

func listReviews(ctx context.Context, api *gh.Client, in NumberListIn) (out List[Review], err error) {
	o := in.options()
	found, resp, err := api.PullRequests.ListReviews(ctx, string(in.Owner), string(in.Repo), int(in.Number), &o)
	if err != nil {
		return out, err
	}
	return list(found, resp, func(r *gh.PullRequestReview, budget *plain.Budget) Review {
		return Review{
			ID: r.GetID(), Author: line(r.GetUser().GetLogin()), State: line(r.GetState()), SubmittedAt: when(r.GetSubmittedAt()),
			SHA: line(r.GetCommitID()), URL: line(r.GetHTMLURL()), Body: budget.Text(r.GetBody(), limit.Comment),
		}
	}), nil
}

func listReviewComments(ctx context.Context, api *gh.Client, in NumberListIn) (out List[ReviewComment], err error) {
	found, resp, err := api.PullRequests.ListComments(ctx, string(in.Owner), string(in.Repo), int(in.Number), &gh.PullRequestListCommentsOptions{ListOptions: in.options()})
	if err != nil {
		return out, err
	}
	return list(found, resp, func(c *gh.PullRequestComment, budget *plain.Budget) ReviewComment {
		return ReviewComment{
			Comment: Comment{
				ID: c.GetID(), Author: line(c.GetUser().GetLogin()), CreatedAt: when(c.GetCreatedAt()), UpdatedAt: when(c.GetUpdatedAt()),
				URL: line(c.GetHTMLURL()), Body: budget.Text(c.GetBody(), limit.Comment),
			},
			Path: plain.Line(c.GetPath(), limit.Path), Line: c.GetLine(), Side: line(c.GetSide()), InReplyTo: c.GetInReplyTo(),
			DiffHunk: budget.Text(c.GetDiffHunk(), limit.Excerpt),
		}
	}), nil
}
