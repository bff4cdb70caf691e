package github

import (
	"context"
	"strings"

	gh "github.com/google/go-github/v92/github"

	"github.com/busbar-mcp/busbar/services/github/internal/argument"
	"github.com/busbar-mcp/busbar/services/github/internal/limit"
	"github.com/busbar-mcp/busbar/services/github/internal/plain"
)

// ListIssuesIn holds the arguments of listIssues.
type ListIssuesIn struct {
	RepoIn
	State     argument.State     `json:"state,omitzero" jsonschema:"open (default), closed or all"`
	Labels    []argument.Label   `json:"labels,omitempty" jsonschema:"Only issues that have all these labels"`
	Assignee  argument.Name      `json:"assignee,omitzero" jsonschema:"Login; none for unassigned issues, * for assigned ones"`
	Creator   argument.Name      `json:"creator,omitzero" jsonschema:"Login of the author"`
	Since     argument.Time      `json:"since,omitzero" jsonschema:"Only issues changed after this time"`
	Sort      argument.IssueSort `json:"sort,omitzero" jsonschema:"created (default), updated or comments"`
	Direction argument.Direction `json:"direction,omitzero" jsonschema:"desc (default) or asc"`
	Paging
}

// NumberIn names an issue or a pull request.
type NumberIn struct {
	RepoIn
	Number argument.Number `json:"number" jsonschema:"Number of the issue or pull request, as in #123"`
}

// NumberListIn holds the arguments of tools that list parts of an issue or a pull request.
type NumberListIn struct {
	NumberIn
	Paging
}

// Issue is an issue, or a pull request seen as one.
type Issue struct {
	Number      int      `json:"number"`
	Repository  string   `json:"repository,omitzero" jsonschema:"owner/name; in search results"`
	Title       string   `json:"title"`
	State       string   `json:"state" jsonschema:"open or closed"`
	StateReason string   `json:"stateReason,omitzero" jsonschema:"completed, not_planned, duplicate or reopened"`
	PullRequest bool     `json:"pullRequest" jsonschema:"true for a pull request; see getPullRequest"`
	Author      string   `json:"author"`
	Labels      []string `json:"labels"`
	Assignees   []string `json:"assignees"`
	Milestone   string   `json:"milestone,omitzero"`
	Comments    int      `json:"comments" jsonschema:"number of comments; see listComments"`
	CreatedAt   string   `json:"createdAt,omitzero"`
	UpdatedAt   string   `json:"updatedAt,omitzero"`
	ClosedAt    string   `json:"closedAt,omitzero"`
	URL         string   `json:"url" jsonschema:"web page"`
	Body        string   `json:"body" jsonschema:"Markdown; shortened in lists"`
}

// Comment is an entry of listComments.
type Comment struct {
	ID        int64  `json:"id"`
	Author    string `json:"author"`
	CreatedAt string `json:"createdAt,omitzero"`
	UpdatedAt string `json:"updatedAt,omitzero"`
	URL       string `json:"url" jsonschema:"web page"`
	Body      string `json:"body" jsonschema:"Markdown"`
}

func (k *kit) addIssues() {
	add(k, "listIssues", "List issues",
		"Lists a repository's issues. GitHub counts pull requests as issues; pullRequest marks them.", listIssues)
	add(k, "getIssue", "Get issue", "Returns an issue of a repository with its whole text.", getIssue)
	add(k, "listComments", "List comments",
		"Lists the comments under an issue or a pull request, oldest first. For comments on lines of a pull request's diff, use listReviewComments.", listComments)
}

func listIssues(ctx context.Context, api *gh.Client, in ListIssuesIn) (out List[Issue], err error) {
	o := &gh.IssueListByRepoOptions{
		State: string(in.State), Assignee: string(in.Assignee), Creator: string(in.Creator), Since: in.Since.Time(),
		Sort: string(in.Sort), Direction: string(in.Direction), ListOptions: in.options(),
	}
	if len(in.Labels) > limit.Labels {
		return out, invalid("labels: there are %d; the limit is %d", len(in.Labels), limit.Labels)
	}
	for _, l := range in.Labels {
		o.Labels = append(o.Labels, string(l))
	}
	found, resp, err := api.Issues.ListByRepo(ctx, string(in.Owner), string(in.Repo), o)
	if err != nil {
		return out, err
	}
	return list(found, resp, listedIssue), nil
}

func getIssue(ctx context.Context, api *gh.Client, in NumberIn) (out Issue, err error) {
	i, _, err := api.Issues.Get(ctx, string(in.Owner), string(in.Repo), int(in.Number))
	if err != nil {
		return out, err
	}
	if i.GetNumber() == 0 {
		return out, errStrange
	}
	budget := plain.Budget(limit.Output)
	return showIssue(i, &budget, limit.Text), nil
}

func listedIssue(i *gh.Issue, budget *plain.Budget) Issue { return showIssue(i, budget, limit.Excerpt) }

func showIssue(i *gh.Issue, budget *plain.Budget, most int) Issue {
	_, repository, _ := strings.Cut(i.GetRepositoryURL(), "/repos/")
	return Issue{
		Number: i.GetNumber(), Repository: line(repository), Title: line(i.GetTitle()), State: line(i.GetState()), StateReason: line(i.GetStateReason()),
		PullRequest: i.IsPullRequest(), Author: line(i.GetUser().GetLogin()),
		Labels: lines(i.Labels, (*gh.Label).GetName), Assignees: lines(i.Assignees, (*gh.User).GetLogin), Milestone: line(i.GetMilestone().GetTitle()),
		Comments: i.GetComments(), CreatedAt: when(i.GetCreatedAt()), UpdatedAt: when(i.GetUpdatedAt()), ClosedAt: when(i.GetClosedAt()),
		URL: line(i.GetHTMLURL()), Body: budget.Text(i.GetBody(), most),
	}
}

func listComments(ctx context.Context, api *gh.Client, in NumberListIn) (out List[Comment], err error) {
	found, resp, err := api.Issues.ListComments(ctx, string(in.Owner), string(in.Repo), int(in.Number), &gh.IssueListCommentsOptions{ListOptions: in.options()})
	if err != nil {
		return out, err
	}
	return list(found, resp, func(c *gh.IssueComment, budget *plain.Budget) Comment {
		return Comment{
			ID: c.GetID(), Author: line(c.GetUser().GetLogin()), CreatedAt: when(c.GetCreatedAt()), UpdatedAt: when(c.GetUpdatedAt()),
			URL: line(c.GetHTMLURL()), Body: budget.Text(c.GetBody(), limit.Comment),
		}
	}), nil
}
