package github

import (
	"time"

	gh "github.com/google/go-github/v92/github"

	"github.com/busbar-mcp/busbar/services/github/internal/argument"
	"github.com/busbar-mcp/busbar/services/github/internal/limit"
	"github.com/busbar-mcp/busbar/services/github/internal/plain"
)

// RepoIn names a repository.
type RepoIn struct {
	Owner argument.Owner `json:"owner" jsonschema:"Login of the user or organisation that owns the repository"`
	Repo  argument.Repo  `json:"repo" jsonschema:"Name of the repository, without its owner"`
}

// Paging chooses a page of results.
type Paging struct {
	Page    argument.Page    `json:"page,omitzero" jsonschema:"Page number; give nextPage of the last result to continue"`
	PerPage argument.PerPage `json:"perPage,omitzero" jsonschema:"Number of results on a page"`
}

func (p Paging) options() gh.ListOptions {
	o := gh.ListOptions{Page: int(p.Page), PerPage: int(p.PerPage)}
	if o.PerPage == 0 {
		o.PerPage = limit.DefaultPerPage
	}
	return o
}

// List is a page of a list.
type List[T any] struct {
	Items    []T `json:"items"`
	NextPage int `json:"nextPage,omitzero" jsonschema:"number of the next page; absent on the last page"`
}

// Found is a page of a search's results.
type Found[T any] struct {
	TotalCount        int  `json:"totalCount" jsonschema:"Total number of matches; GitHub returns only the first 1000"`
	Items             []T  `json:"items"`
	NextPage          int  `json:"nextPage,omitzero" jsonschema:"number of the next page; absent on the last page"`
	IncompleteResults bool `json:"incompleteResults,omitzero" jsonschema:"true if GitHub ran out of time and there may be more"`
}

// items returns the results of one page, whose longer texts share a budget.
func items[From, To any](from []*From, show func(*From, *plain.Budget) To) []To {
	out := make([]To, 0, len(from))
	budget := plain.Budget(limit.Output)
	for _, f := range from {
		if f != nil {
			out = append(out, show(f, &budget))
		}
	}
	return out
}

func list[From, To any](from []*From, r *gh.Response, show func(*From, *plain.Budget) To) List[To] {
	return List[To]{Items: items(from, show), NextPage: r.NextPage}
}

// line returns a short text of GitHub for a field of a result.
func line(s string) string { return plain.Line(s, limit.Line) }

func lines[T any](from []T, text func(T) string) []string {
	from = from[:min(len(from), limit.Entries)]
	out := make([]string, 0, len(from))
	for _, f := range from {
		out = append(out, line(text(f)))
	}
	return out
}

// when formats a time for a result; empty for none.
func when(t gh.Timestamp) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
