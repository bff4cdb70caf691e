package github

import (
	"context"

	gh "github.com/google/go-github/v92/github"

	"github.com/busbar-mcp/busbar/services/github/internal/argument"
	"github.com/busbar-mcp/busbar/services/github/internal/limit"
	"github.com/busbar-mcp/busbar/services/github/internal/plain"
)

// SearchRepositoriesIn holds the arguments of searchRepositories.
type SearchRepositoriesIn struct {
	Query argument.Query          `json:"query" jsonschema:"Words and qualifiers, such as: http router language:go stars:>500 org:google topic:mcp in:name"`
	Sort  argument.RepositorySort `json:"sort,omitzero" jsonschema:"Order of results; best match if omitted"`
	Order argument.Direction      `json:"order,omitzero" jsonschema:"With sort: desc (default) or asc"`
	Paging
}

// FoundRepository is a repository as a search shows it.
type FoundRepository struct {
	Name        string `json:"name"`
	FullName    string `json:"fullName" jsonschema:"owner/name"`
	Description string `json:"description"`
	URL         string `json:"url" jsonschema:"web page"`
	Stars       int    `json:"stars"`
}

// SearchIssuesIn holds the arguments of searchIssues.
type SearchIssuesIn struct {
	Query argument.Query           `json:"query" jsonschema:"Words and qualifiers, such as: panic repo:golang/go is:issue is:open label:bug author:octocat created:>2026-01-01. Include is:issue or is:pr"`
	Sort  argument.IssueSearchSort `json:"sort,omitzero" jsonschema:"Order of results; best match if omitted"`
	Order argument.Direction       `json:"order,omitzero" jsonschema:"With sort: desc (default) or asc"`
	Paging
}

// SearchCodeIn holds the arguments of searchCode.
type SearchCodeIn struct {
	Query argument.Query `json:"query" jsonschema:"Words and qualifiers, such as: http.NewRequest repo:golang/go language:go path:src/net extension:go. Include a repo, org or user"`
	Paging
}

// FoundCode is a file that matches a search.
type FoundCode struct {
	Repository string   `json:"repository" jsonschema:"owner/name"`
	Path       string   `json:"path"`
	SHA        string   `json:"sha" jsonschema:"SHA of the file's content"`
	URL        string   `json:"url" jsonschema:"web page"`
	Fragments  []string `json:"fragments" jsonschema:"pieces of the file around the matches"`
}

func (k *kit) addSearches() {
	add(k, "searchRepositories", "Search repositories",
		"Searches GitHub for repositories, by words and qualifiers. Returns the total number and a page of repositories with name, description, URL and stars.",
		searchRepositories)
	add(k, "searchIssues", "Search issues and pull requests",
		"Searches issues and pull requests on all of GitHub, by words and qualifiers. For one repository, use listIssues and listPullRequests, which are exact and have higher limits.",
		searchIssues)
	add(k, "searchCode", "Search code",
		"Searches the default branches of repositories for code, and returns files with the matching parts. The service needs a token for it. Read a file with getFileContents.",
		searchCode)
}

func searchRepositories(ctx context.Context, api *gh.Client, in SearchRepositoriesIn) (out Found[FoundRepository], err error) {
	r, resp, err := api.Search.Repositories(ctx, string(in.Query),
		&gh.SearchOptions{Sort: string(in.Sort), Order: string(in.Order), ListOptions: in.options()})
	if err != nil {
		return out, err
	}
	return found(r.GetTotal(), r.GetIncompleteResults(), r.GetRepositories(), resp, func(r *gh.Repository, _ *plain.Budget) FoundRepository {
		return FoundRepository{
			Name: line(r.GetName()), FullName: line(r.GetFullName()), Description: line(r.GetDescription()),
			URL: line(r.GetHTMLURL()), Stars: r.GetStargazersCount(),
		}
	}, r != nil)
}

func searchIssues(ctx context.Context, api *gh.Client, in SearchIssuesIn) (out Found[Issue], err error) {
	r, resp, err := api.Search.Issues(ctx, string(in.Query),
		&gh.SearchOptions{Sort: string(in.Sort), Order: string(in.Order), ListOptions: in.options()})
	if err != nil {
		return out, err
	}
	return found(r.GetTotal(), r.GetIncompleteResults(), r.GetIssues(), resp, listedIssue, r != nil)
}

func searchCode(ctx context.Context, api *gh.Client, in SearchCodeIn) (out Found[FoundCode], err error) {
	r, resp, err := api.Search.Code(ctx, string(in.Query), &gh.SearchOptions{TextMatch: true, ListOptions: in.options()})
	if err != nil {
		return out, err
	}
	return found(r.GetTotal(), r.GetIncompleteResults(), r.GetCodeResults(), resp, func(c *gh.CodeResult, budget *plain.Budget) FoundCode {
		f := FoundCode{
			Repository: line(c.GetRepository().GetFullName()), Path: line(c.GetPath()), SHA: line(c.GetSHA()), URL: line(c.GetHTMLURL()),
			Fragments: []string{},
		}
		for _, m := range c.TextMatches {
			f.Fragments = append(f.Fragments, budget.Text(m.GetFragment(), limit.Excerpt))
		}
		return f
	}, r != nil)
}

func found[From, To any](total int, incomplete bool, from []*From, r *gh.Response, show func(*From, *plain.Budget) To, is bool) (Found[To], error) {
	if !is {
		return Found[To]{}, errStrange
	}
	return Found[To]{TotalCount: total, Items: items(from, show), NextPage: r.NextPage, IncompleteResults: incomplete}, nil
}
