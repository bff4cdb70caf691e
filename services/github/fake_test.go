package github_test

import (
	"crypto/sha256"
	"embed"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/services/github"
)

// shapes are responses in the shapes GitHub documents, by the name of the route.
//
//go:embed testdata/*.json testdata/*.diff
var shapes embed.FS

// routes are the requests that the fake knows, by URI as sent, without the query.
var routes = map[string]string{
	"/search/repositories":                          "search_repositories.json",
	"/search/issues":                                "search_issues.json",
	"/search/code":                                  "search_code.json",
	"/repos/octocat/hello":                          "repository.json",
	"/repos/octocat/hello/branches":                 "branches.json",
	"/repos/octocat/hello/releases":                 "releases.json",
	"/repos/octocat/hello/issues":                   "issues.json",
	"/repos/octocat/hello/issues/7":                 "issue.json",
	"/repos/octocat/hello/issues/7/comments":        "comments.json",
	"/repos/octocat/hello/pulls":                    "pulls.json",
	"/repos/octocat/hello/pulls/8":                  "pull.json",
	"/repos/octocat/hello/pulls/8/files":            "files.json",
	"/repos/octocat/hello/pulls/8/reviews":          "reviews.json",
	"/repos/octocat/hello/pulls/8/comments":         "review_comments.json",
	"/repos/octocat/hello/commits":                  "commits.json",
	"/repos/octocat/hello/commits/main":             "commit.json",
	"/repos/octocat/hello/contents/":                "directory.json",
	"/repos/octocat/hello/contents/README.md":       "file.json",
	"/repos/octocat/hello/contents/logo.png":        "binary.json",
	"/repos/octocat/hello/contents/large.txt":       "large.json",
	"/repos/octocat/hello/contents/link":            "symlink.json",
	"/repos/octocat/hello/contents/vendor/lib":      "submodule.json",
	"/repos/octocat/hello/git/blobs/c0ffee00c0ffee": "",
}

// fake is a GitHub API: it answers routes with ETags, rate limits and pages, and
// remembers what it was asked.
type fake struct {
	*httptest.Server

	mu       sync.Mutex
	requests []*http.Request
	// intercept answers instead, when it returns true.
	intercept func(w http.ResponseWriter, r *http.Request, n int) bool
}

// newFake starts one; intercept may be nil.
func newFake(t *testing.T, intercept func(w http.ResponseWriter, r *http.Request, n int) bool) *fake {
	t.Helper()
	f := &fake{intercept: intercept}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

func (f *fake) config() github.Env { return github.Env{URL: f.URL, Token: canary} }

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.requests = append(f.requests, r.Clone(r.Context()))
	n := len(f.requests)
	f.mu.Unlock()
	limits(w, 4999)
	if f.intercept != nil && f.intercept(w, r, n) {
		return
	}
	path, _, _ := strings.Cut(r.RequestURI, "?")
	name, ok := routes[path]
	switch {
	case !ok:
		refuse(w, http.StatusNotFound, `{"message":"Not Found","documentation_url":"https://docs.github.com/rest","status":"404"}`)
		return
	case name == "":
		w.Header().Set("Content-Type", "application/vnd.github.raw; charset=utf-8")
		fmt.Fprint(w, strings.Repeat("0123456789abcdef\n", 100_000))
		return
	case name == "pull.json" && strings.Contains(r.Header.Get("Accept"), "diff"):
		name = "pull.diff"
	}
	body, err := shapes.ReadFile("testdata/" + name)
	if err != nil {
		panic(err)
	}
	tag := fmt.Sprintf(`W/"%x"`, sha256.Sum256(append(body, r.Header.Get("Authorization")...)))
	w.Header().Set("ETag", tag)
	w.Header().Set("Cache-Control", "private, max-age=60, s-maxage=60")
	w.Header().Set("Vary", "Accept, Authorization, Cookie, X-GitHub-OTP, Accept-Encoding, Accept, X-Requested-With")
	if page := r.URL.Query().Get("page"); page == "" || page == "1" {
		w.Header().Set("Link", fmt.Sprintf(`<%[1]s%[2]s?page=2>; rel="next", <%[1]s%[2]s?page=9>; rel="last"`, f.URL, path))
	}
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_, _ = w.Write(body)
}

// limits writes the headers of GitHub's primary rate limit.
func limits(w http.ResponseWriter, remaining int) {
	h := w.Header()
	h.Set("X-RateLimit-Limit", "5000")
	h.Set("X-RateLimit-Remaining", strconv.Itoa(remaining))
	h.Set("X-RateLimit-Used", strconv.Itoa(5000-remaining))
	h.Set("X-RateLimit-Reset", strconv.FormatInt(time.Now().Add(12*time.Minute).Unix(), 10))
	h.Set("X-RateLimit-Resource", "core")
	h.Set("X-GitHub-Request-Id", "C0DE:1234:5678:9ABC:DEF01234")
	h.Set("X-GitHub-Media-Type", "github.v3; format=json")
}

func refuse(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	fmt.Fprint(w, body)
}

// asked returns the requests so far: method and URI as sent.
func (f *fake) asked() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var uris []string
	for _, r := range f.requests {
		uris = append(uris, r.RequestURI)
	}
	return uris
}

func (f *fake) request(n int) *http.Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.requests[n]
}
