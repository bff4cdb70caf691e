package github_test

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	gh "github.com/google/go-github/v92/github"

	"github.com/busbar-mcp/busbar/services/github/internal/argument"
	"github.com/busbar-mcp/busbar/services/github/internal/upstream"
)

// Arguments reach GitHub unchanged, or not at all: case 109 of the list of attacks. The service is
// called without the edge, whose schemas would refuse some of these earlier.
func TestArgumentsReachGitHubExactlyOrAreRefused(t *testing.T) {
	t.Parallel()
	f := newFake(t, nil)
	c := start(t, f.config())
	const contents, commit = "/repos/o/r/contents/", "/repos/o/r/commits/"
	for _, tt := range []struct {
		tool, argument, value string
		asks                  string // empty: refused
	}{
		{"getFileContents", "owner", "..", ""},
		{"getFileContents", "owner", "o/r", ""},
		{"getFileContents", "owner", "o%2fx", ""},
		{"getFileContents", "owner", "o?x", ""},
		{"getFileContents", "owner", "o#x", ""},
		{"getFileContents", "owner", "o\r\nX-Evil: 1", ""},
		{"getFileContents", "owner", "o\n", ""},
		{"getFileContents", "owner", "", ""},
		{"getFileContents", "owner", "-o", ""},
		{"getFileContents", "owner", "ö", ""},
		{"getFileContents", "owner", strings.Repeat("o", 101), ""},
		{"getFileContents", "owner", "Name-of_emu", "/repos/Name-of_emu/r/contents/"},
		{"getFileContents", "repo", ".", ""},
		{"getFileContents", "repo", "..", ""},
		{"getFileContents", "repo", "r/../../user", ""},
		{"getFileContents", "repo", "r%2e%2e", ""},
		{"getFileContents", "repo", "r?ref=x", ""},
		{"getFileContents", "repo", "r#", ""},
		{"getFileContents", "repo", "r\r\n", ""},
		{"getFileContents", "repo", "..r..", "/repos/o/..r../contents/"},
		{"getFileContents", "path", "../../user", ""},
		{"getFileContents", "path", "a/../b", ""},
		{"getFileContents", "path", "a/./b", ""},
		{"getFileContents", "path", "/a", ""},
		{"getFileContents", "path", "a/", ""},
		{"getFileContents", "path", "a//b", ""},
		{"getFileContents", "path", ".", ""},
		{"getFileContents", "path", "a\r\nHost: evil", ""},
		{"getFileContents", "path", "a\x00b", ""},
		{"getFileContents", "path", strings.Repeat("p", 4097), ""},
		{"getFileContents", "path", "a?b=c&d", contents + "a%3Fb=c&d"},
		{"getFileContents", "path", "a#b", contents + "a%23b"},
		{"getFileContents", "path", "a%2fb", contents + "a%252fb"},
		{"getFileContents", "path", "%2e%2e/a", contents + "%252e%252e/a"},
		{"getFileContents", "path", "..%2f..%2fuser", contents + "..%252f..%252fuser"},
		{"getFileContents", "path", "...", contents + "..."},
		{"getFileContents", "path", `..\..\user`, contents + "..%5C..%5Cuser"},
		{"getFileContents", "path", "https://evil/x", ""},
		{"getFileContents", "path", "https:evil", contents + "https:evil"},
		{"getFileContents", "path", "zażółć 工具.go", contents + "za%C5%BC%C3%B3%C5%82%C4%87%20%E5%B7%A5%E5%85%B7.go"},
		{"getFileContents", "ref", "main&path=x", contents + "?ref=main%26path%3Dx"},
		{"getFileContents", "ref", "a#b%2f", contents + "?ref=a%23b%252f"},
		{"getFileContents", "ref", "a..b", ""},
		{"getFileContents", "ref", "a\r\nb", ""},
		{"getCommit", "ref", "feature/x", commit + "feature%2Fx?per_page=20"},
		{"getCommit", "ref", "a#b", commit + "a%23b?per_page=20"},
		{"getCommit", "ref", "a%2fb", commit + "a%252fb?per_page=20"},
		{"getCommit", "ref", "é;x", commit + "%C3%A9%3Bx?per_page=20"},
		{"getCommit", "ref", "..", ""},
		{"getCommit", "ref", "a/../../pulls", ""},
		{"getCommit", "ref", "a?b", ""},
		{"getCommit", "ref", "a b", ""},
		{"getCommit", "ref", "", ""},
		{"getCommit", "ref", "x.lock", ""},
		{"getCommit", "ref", "HEAD~1", ""},
		{"getCommit", "ref", "a@{1}", ""},
		{"getCommit", "ref", "--upload-pack", ""},
		{"searchRepositories", "query", "a\r\nX-Evil: 1", ""},
		{"searchRepositories", "query", " ", ""},
		{"searchRepositories", "query", strings.Repeat("q", 1025), ""},
		{"searchRepositories", "query", "a&per_page=1#x", "/search/repositories?per_page=20&q=a%26per_page%3D1%23x"},
		{"searchRepositories", "sort", "stars&q=x", ""},
		{"listIssues", "creator", "dependabot[bot]", "/repos/o/r/issues?creator=dependabot%5Bbot%5D&per_page=20"},
		{"listIssues", "creator", "a\nb", ""},
		{"listIssues", "since", "yesterday", ""},
		{"listIssues", "state", "merged", ""},
		{"listIssues", "direction", "up", ""},
		{"listIssues", "sort", "popularity", ""},
		{"listPullRequests", "head", "o/r:main", ""},
		{"listPullRequests", "head", "main", ""},
		{"listPullRequests", "sort", "comments", ""},
		{"searchIssues", "sort", "stars", ""},
		{"listCommits", "author", "a@b.c\r\n", ""},
	} {
		before := len(f.asked())
		fields := map[string]string{"owner": `"o"`, "repo": `"r"`}
		if strings.HasPrefix(tt.tool, "search") {
			fields = map[string]string{"query": `"q"`}
		}
		fields[tt.argument] = quote(tt.value)
		r := c.as("ada", callTime, tt.tool, object(fields))
		asked := f.asked()[before:]
		switch {
		case tt.asks == "" && (len(asked) > 0 || !r.IsError || !strings.HasPrefix(r.text(), "invalid: ")):
			t.Errorf("%s with %s %q: asked %q, and got %s; want a refusal", tt.tool, tt.argument, tt.value, asked, r.text())
		case tt.asks != "" && (len(asked) != 1 || asked[0] != tt.asks):
			t.Errorf("%s with %s %q: asked %q, want %s; %s", tt.tool, tt.argument, tt.value, asked, tt.asks, r.text())
		}
	}
	for _, arguments := range []string{
		`{"owner":"o","repo":"r","number":0}`, `{"owner":"o","repo":"r","number":-1}`, `{"owner":"o","repo":"r","number":4294967296}`,
		`{"owner":"o","repo":"r","number":1,"page":-1}`, `{"owner":"o","repo":"r","number":1,"perPage":101}`, `{"owner":"o","repo":"r","number":1,"page":100001}`,
	} {
		c.fails("listComments", arguments, "invalid")
	}
	c.fails("listIssues", `{"owner":"o","repo":"r","labels":["a,b"]}`, "invalid", "labels: ")
	c.fails("listIssues", `{"owner":"o","repo":"r","labels":["a",""]}`, "invalid", "labels: ")
	c.fails("listIssues", `{"owner":"o","repo":"r","labels":["a"`+strings.Repeat(`,"a"`, 20)+`]}`, "invalid", "labels: ")
	c.fails("getPullRequestDiff", `{"owner":"o","repo":"r","number":1,"maxBytes":524289}`, "invalid", "maxBytes: ")
	c.fails("getFileContents", `{"owner":"o","repo":"r","startLine":-1}`, "invalid", "startLine: ")
}

func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		if r < ' ' || r == '"' || r == '\\' {
			b.WriteString(`\u00` + strconv.FormatInt(int64(r)+0x100, 16)[1:])
			continue
		}
		b.WriteRune(r)
	}
	b.WriteByte('"')
	return b.String()
}

func object(fields map[string]string) string {
	var parts []string
	for name, value := range fields {
		parts = append(parts, `"`+name+`":`+value)
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// capture keeps the last request, and finds nothing.
type capture struct{ url *url.URL }

func (c *capture) RoundTrip(r *http.Request) (*http.Response, error) {
	c.url = r.URL
	return &http.Response{StatusCode: http.StatusNotFound, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
}

// Arguments that satisfy the grammar arrive segment by segment, whatever they contain.
func FuzzEncoding(f *testing.F) {
	f.Add("octocat", "hello", "src/a b?#%2f.go", "feature/#1")
	f.Add("o", "..r", "a:b", "é%00")
	f.Add("..", ".", "../x", "a..b")
	base, _ := url.Parse("https://ghe.example.com/api/v3")
	f.Fuzz(func(t *testing.T, owner, repo, path, ref string) {
		in := struct {
			Owner argument.Owner `json:"owner"`
			Repo  argument.Repo  `json:"repo"`
			Path  argument.Path  `json:"path"`
			Ref   argument.Ref   `json:"ref"`
		}{argument.Owner(owner), argument.Repo(repo), argument.Path(path), argument.Ref(ref)}
		if argument.Check(in) != nil {
			return
		}
		check := func(what string, got *url.URL, segments []string, query string) {
			t.Helper()
			if got == nil {
				t.Fatalf("%s: nothing was asked", what)
			}
			want := append([]string{"", "api", "v3", "repos", owner, repo}, segments...)
			parts := strings.Split(got.EscapedPath(), "/")
			for i := range parts {
				part, err := url.PathUnescape(parts[i])
				if err != nil {
					t.Fatal(err)
				}
				parts[i] = part
			}
			if !slices.Equal(parts, want) || got.Host != "ghe.example.com" || got.Fragment != "" || got.User != nil {
				t.Fatalf("%s: asked %s, want %q", what, got, want)
			}
			if q := got.Query(); q.Get("ref") != query || len(q) > 1 {
				t.Fatalf("%s: query %q, want ref %q", what, got.RawQuery, query)
			}
		}
		ask := func(f func(*gh.Client)) *url.URL {
			c := &capture{}
			api, err := upstream.New(base, c, "test").As("")
			if err != nil {
				t.Fatal(err)
			}
			f(api)
			return c.url
		}
		check("contents", ask(func(api *gh.Client) {
			_, _, _, _ = api.Repositories.GetContents(t.Context(), owner, repo, path, &gh.RepositoryContentGetOptions{Ref: ref})
		}), append([]string{"contents"}, strings.Split(path, "/")...), ref)
		if ref != "" {
			check("commit", ask(func(api *gh.Client) {
				_, _, _ = api.Repositories.GetCommit(t.Context(), owner, repo, in.Ref.Segment(), nil)
			}), []string{"commits", ref}, "")
		}
	})
}
