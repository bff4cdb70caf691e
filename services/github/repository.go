package github

import (
	"context"

	gh "github.com/google/go-github/v92/github"

	"github.com/busbar-mcp/busbar/services/github/internal/limit"
	"github.com/busbar-mcp/busbar/services/github/internal/plain"
)

// Repository is the result of getRepository.
type Repository struct {
	Name          string   `json:"name"`
	FullName      string   `json:"fullName" jsonschema:"owner/name"`
	Description   string   `json:"description"`
	URL           string   `json:"url" jsonschema:"web page"`
	Homepage      string   `json:"homepage,omitzero"`
	Stars         int      `json:"stars"`
	Forks         int      `json:"forks"`
	OpenIssues    int      `json:"openIssues" jsonschema:"open issues and pull requests"`
	Language      string   `json:"language,omitzero" jsonschema:"main programming language"`
	Topics        []string `json:"topics"`
	License       string   `json:"license,omitzero" jsonschema:"SPDX identifier"`
	DefaultBranch string   `json:"defaultBranch"`
	Visibility    string   `json:"visibility,omitzero"`
	Archived      bool     `json:"archived"`
	ForkOf        string   `json:"forkOf,omitzero" jsonschema:"owner/name of the original repository"`
	CreatedAt     string   `json:"createdAt,omitzero"`
	UpdatedAt     string   `json:"updatedAt,omitzero"`
	PushedAt      string   `json:"pushedAt,omitzero"`
}

// ListIn holds the arguments of tools that list parts of a repository.
type ListIn struct {
	RepoIn
	Paging
}

// Branch is an entry of listBranches.
type Branch struct {
	Name      string `json:"name"`
	SHA       string `json:"sha" jsonschema:"its last commit"`
	Protected bool   `json:"protected"`
}

// Release is an entry of listReleases.
type Release struct {
	Name        string   `json:"name"`
	Tag         string   `json:"tag"`
	Author      string   `json:"author"`
	Draft       bool     `json:"draft"`
	Prerelease  bool     `json:"prerelease"`
	PublishedAt string   `json:"publishedAt,omitzero"`
	URL         string   `json:"url" jsonschema:"web page"`
	Notes       string   `json:"notes" jsonschema:"release notes, shortened"`
	Assets      []string `json:"assets" jsonschema:"names of the files"`
}

func (k *kit) addRepositories() {
	add(k, "getRepository", "Get repository",
		"Returns facts about a repository: description, default branch, language, license, topics, stars, activity.",
		getRepository)
	add(k, "listBranches", "List branches", "Lists a repository's branches with their last commits.", listBranches)
	add(k, "listReleases", "List releases", "Lists a repository's releases with their notes, newest first.", listReleases)
}

func getRepository(ctx context.Context, api *gh.Client, in RepoIn) (out Repository, err error) {
	r, _, err := api.Repositories.Get(ctx, string(in.Owner), string(in.Repo))
	if err != nil {
		return out, err
	}
	if r.GetFullName() == "" {
		return out, errStrange
	}
	return Repository{
		Name: line(r.GetName()), FullName: line(r.GetFullName()), Description: line(r.GetDescription()),
		URL: line(r.GetHTMLURL()), Homepage: line(r.GetHomepage()),
		Stars: r.GetStargazersCount(), Forks: r.GetForksCount(), OpenIssues: r.GetOpenIssuesCount(),
		Language: line(r.GetLanguage()), Topics: lines(r.Topics, func(t string) string { return t }), License: line(r.GetLicense().GetSPDXID()),
		DefaultBranch: line(r.GetDefaultBranch()), Visibility: line(r.GetVisibility()), Archived: r.GetArchived(),
		ForkOf:    line(r.GetParent().GetFullName()),
		CreatedAt: when(r.GetCreatedAt()), UpdatedAt: when(r.GetUpdatedAt()), PushedAt: when(r.GetPushedAt()),
	}, nil
}

func listBranches(ctx context.Context, api *gh.Client, in ListIn) (out List[Branch], err error) {
	found, resp, err := api.Repositories.ListBranches(ctx, string(in.Owner), string(in.Repo), &gh.BranchListOptions{ListOptions: in.options()})
	if err != nil {
		return out, err
	}
	return list(found, resp, func(b *gh.Branch, _ *plain.Budget) Branch {
		return Branch{Name: line(b.GetName()), SHA: line(b.GetCommit().GetSHA()), Protected: b.GetProtected()}
	}), nil
}

func listReleases(ctx context.Context, api *gh.Client, in ListIn) (out List[Release], err error) {
	o := in.options()
	found, resp, err := api.Repositories.ListReleases(ctx, string(in.Owner), string(in.Repo), &o)
	if err != nil {
		return out, err
	}
	return list(found, resp, func(r *gh.RepositoryRelease, budget *plain.Budget) Release {
		return Release{
			Name: line(r.GetName()), Tag: line(r.GetTagName()), Author: line(r.GetAuthor().GetLogin()), Draft: r.GetDraft(), Prerelease: r.GetPrerelease(),
			PublishedAt: when(r.GetPublishedAt()), URL: line(r.GetHTMLURL()), Notes: budget.Text(r.GetBody(), limit.Comment),
			Assets: lines(r.Assets, (*gh.ReleaseAsset).GetName),
		}
	}), nil
}
