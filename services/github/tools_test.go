package github_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus/registry"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/schema"
	"github.com/busbar-mcp/busbar/services/github"
)

// everyTool has a valid call of each tool, the expected request to GitHub, and parts of the answer.
var everyTool = []struct{ tool, arguments, asks, answers string }{
	// As in the founding document.
	{"searchRepositories", `{"query":"bus language:go","perPage":5}`, "/search/repositories?per_page=5&q=bus+language%3Ago",
		`{"totalCount":42,"items":[{"name":"hello","fullName":"octocat/hello","description":"A first repository","url":"https://github.com/octocat/hello","stars":123},{"name":"bare","fullName":"octocat/bare","description":"","url":"https://github.com/octocat/bare","stars":0}],"nextPage":2}`},
	{"searchRepositories", `{"query":"q","sort":"stars","order":"asc","page":9}`, "/search/repositories?order=asc&page=9&per_page=20&q=q&sort=stars", `"totalCount":42`},
	{"searchIssues", `{"query":"is:open c++ & \"x\""}`, "/search/issues?per_page=20&q=is%3Aopen+c%2B%2B+%26+%22x%22",
		`"items":[{"number":7,"repository":"octocat/hello","title":"\\u202eevil\\u001b[31m title second"`},
	{"searchCode", `{"query":"go repo:octocat/hello"}`, "/search/code?per_page=20&q=go+repo%3Aoctocat%2Fhello",
		`"items":[{"repository":"octocat/hello","path":"src/bus.go","sha":"d7212f9dee2dcc18f084d7df8f417b80846ded5a","url":"https://github.com/octocat/hello/blob/d7/src/bus.go","fragments":["func go() {"]}]`},
	{"getRepository", `{"owner":"octocat","repo":"hello"}`, "/repos/octocat/hello",
		`"stars":123,"forks":9,"openIssues":4,"language":"Go","topics":["mcp","nats"],"license":"MIT","defaultBranch":"main","visibility":"public","archived":false,"forkOf":"upstream/hello","createdAt":"2011-01-26T19:01:12Z"`},
	{"listBranches", `{"owner":"octocat","repo":"hello"}`, "/repos/octocat/hello/branches?per_page=20",
		`{"items":[{"name":"main","sha":"c5b97d5ae6c19d5c5df71a34c7fbeeda2479ccbc","protected":true}],"nextPage":2}`},
	{"listReleases", `{"owner":"octocat","repo":"hello","page":2}`, "/repos/octocat/hello/releases?page=2&per_page=20",
		`{"items":[{"name":"v1.0.0","tag":"v1.0.0","author":"octocat","draft":false,"prerelease":false,"publishedAt":"2026-02-27T19:35:32Z","url":"https://github.com/octocat/hello/releases/v1.0.0","notes":"First.","assets":["hello.zip"]}]}`},
	{"listIssues", `{"owner":"octocat","repo":"hello","state":"all","labels":["good first issue","bug"],"creator":"ada","since":"2026-01-31T12:00:00+01:00"}`,
		"/repos/octocat/hello/issues?creator=ada&labels=good+first+issue%2Cbug&per_page=20&since=2026-01-31T11%3A00%3A00Z&state=all",
		`"title":"Mend the bus","state":"open","pullRequest":true,"author":"ada","labels":["bug"],"assignees":[]`},
	{"getIssue", `{"owner":"octocat","repo":"hello","number":7}`, "/repos/octocat/hello/issues/7",
		`"milestone":"v1.0","comments":1,"createdAt":"2026-11-01T10:00:00Z","updatedAt":"2026-11-02T10:00:00Z","url":"https://github.com/octocat/hello/issues/7","body":"It stops.\r\nAlways."`},
	{"listComments", `{"owner":"octocat","repo":"hello","number":7}`, "/repos/octocat/hello/issues/7/comments?per_page=20",
		`{"items":[{"id":99,"author":"eve","createdAt":"2026-11-01T11:00:00Z","updatedAt":"2026-11-01T11:00:00Z","url":"https://github.com/octocat/hello/issues/7#issuecomment-99","body":"Me too"}],"nextPage":2}`},
	{"listPullRequests", `{"owner":"octocat","repo":"hello","base":"release/1.x","head":"ada:fix/#7"}`, "/repos/octocat/hello/pulls?base=release%2F1.x&head=ada%3Afix%2F%237&per_page=20",
		`"merged":true,"mergedAt":"2026-11-04T10:00:00Z","author":"ada","labels":["bug"],"reviewers":["bob"],"base":{"repository":"octocat/hello","ref":"main","sha":"6dcb09b5b57875f334f61aebed695e2e4193db5e"},"head":{"ref":"fix/#7",`},
	{"getPullRequest", `{"owner":"octocat","repo":"hello","number":8}`, "/repos/octocat/hello/pulls/8", `"mergeable":"unknown"`},
	{"getPullRequestDiff", `{"owner":"octocat","repo":"hello","number":8}`, "/repos/octocat/hello/pulls/8", `{"diff":"diff --git a/bus.go b/bus.go\n`},
	{"getPullRequestDiff", `{"owner":"octocat","repo":"hello","number":8,"maxBytes":10}`, "/repos/octocat/hello/pulls/8",
		`{"diff":"diff --git","size":111,"note":"truncated: 10 of 111 bytes; use listPullRequestFiles, which has pages"}`},
	{"listPullRequestFiles", `{"owner":"octocat","repo":"hello","number":8,"perPage":100}`, "/repos/octocat/hello/pulls/8/files?per_page=100",
		`{"path":"logo2.png","previousPath":"logo.png","status":"renamed","additions":0,"deletions":0}`},
	{"listReviews", `{"owner":"octocat","repo":"hello","number":8}`, "/repos/octocat/hello/pulls/8/reviews?per_page=20", `"state":"APPROVED","submittedAt":"2026-11-03T17:52:45Z"`},
	{"listReviewComments", `{"owner":"octocat","repo":"hello","number":8}`, "/repos/octocat/hello/pulls/8/comments?per_page=20",
		`"body":"Why?","path":"bus.go","line":1,"side":"LEFT","inReplyTo":9,"diffHunk":"@@ -1 +1 @@\n-stop()"`},
	{"listCommits", `{"owner":"octocat","repo":"hello","ref":"main","path":"a b/c?.go","author":"ada@example.com","until":"2026-01-31T12:00:00Z"}`,
		"/repos/octocat/hello/commits?author=ada%40example.com&path=a+b%2Fc%3F.go&per_page=20&sha=main&until=2026-01-31T12%3A00%3A00Z",
		`"message":"bus: go on\n\nIt stopped.","author":"ada","date":"2026-11-03T09:00:00Z"`},
	{"getCommit", `{"owner":"octocat","repo":"hello","ref":"main"}`, "/repos/octocat/hello/commits/main?per_page=20",
		`"author":"Ada","date":"2026-11-03T09:00:00Z","url":"https://github.com/octocat/hello/commit/6dcb09b","parents":["553c2077f0edc3d5dc5d17262f6aa498e69d6f8e"],"additions":1,"deletions":1,"files":[{"path":"bus.go","status":"modified","additions":1,"deletions":1,"patch":"@@ -1 +1 @@\n-stop()\n+go()"}]`},
	{"getFileContents", `{"owner":"octocat","repo":"hello"}`, "/repos/octocat/hello/contents/",
		`{"type":"dir","path":"","entries":[{"name":"README.md","path":"README.md","type":"file","size":20},{"name":"src","path":"src","type":"dir","size":0}]}`},
	{"getFileContents", `{"owner":"octocat","repo":"hello","path":"README.md","ref":"fix/#7"}`, "/repos/octocat/hello/contents/README.md?ref=fix%2F%237",
		`"encoding":"utf-8","content":"# Hello\n\nOne bus \\u202e here\nend","line":1,"note":"control or invisible characters are written as \\uXXXX"`},
	{"getFileContents", `{"owner":"octocat","repo":"hello","path":"README.md","startLine":2,"maxBytes":20}`, "/repos/octocat/hello/contents/README.md",
		`"content":"\nOne bus \\u202e here\n","line":2,"nextLine":4,"note":"truncated: 18 of the 21 bytes from here; continue with startLine 4; control`},
	{"getFileContents", `{"owner":"octocat","repo":"hello","path":"README.md","startLine":4,"maxBytes":2}`, "/repos/octocat/hello/contents/README.md",
		`"content":"en","line":4,"note":"truncated: 2 of the 3 bytes from here; the line is longer than maxBytes"`},
	{"getFileContents", `{"owner":"octocat","repo":"hello","path":"logo.png"}`, "/repos/octocat/hello/contents/logo.png", `"encoding":"base64","content":"iVBORw0KGgoAAP8="`},
	{"getFileContents", `{"owner":"octocat","repo":"hello","path":"link"}`, "/repos/octocat/hello/contents/link", `"type":"symlink","path":"link","size":9,`},
	{"getFileContents", `{"owner":"octocat","repo":"hello","path":"vendor/lib"}`, "/repos/octocat/hello/contents/vendor/lib", `"target":"https://github.com/octocat/lib.git"`},
}

func TestTools(t *testing.T) {
	t.Parallel()
	f := newFake(t, nil)
	c := start(t, f.config())
	outputs := c.outputSchemas()
	called := map[string]bool{}
	for i, tt := range everyTool {
		called[tt.tool] = true
		got := c.call(tt.tool, tt.arguments)
		if !strings.Contains(got, tt.answers) {
			t.Errorf("%s %s\n got %s\nwant %s", tt.tool, tt.arguments, got, tt.answers)
		}
		asked := f.asked()
		if len(asked) != i+1 || asked[i] != tt.asks {
			t.Errorf("%s %s asks for\n     %q\nwant %s", tt.tool, tt.arguments, asked[i:], tt.asks)
		}
		if err := outputs[tt.tool].Validate([]byte(got)); err != nil {
			t.Errorf("%s: the answer is not of the tool's output schema: %v\n%s", tt.tool, err, got)
		}
	}
	for name := range outputs {
		if !called[name] {
			t.Errorf("%s is not in everyTool", name)
		}
	}
	r := f.request(0)
	if r.Header.Get("Authorization") != "Bearer "+canary || r.Header.Get("User-Agent") != "busbar-github/1.2.3" || r.Header.Get("X-GitHub-Api-Version") == "" {
		t.Errorf("headers %v", r.Header)
	}
}

// outputSchemas returns the output schemas of all tools, and checks the definitions.
func (c *client) outputSchemas() map[string]*schema.Schema {
	c.t.Helper()
	var tools []*busv1.Tool
	bustest.Eventually(c.t, "the service is announced", func() bool {
		i := slices.IndexFunc(c.registry.Services(), func(s registry.Service) bool { return s.Name == "github" })
		if i < 0 {
			return false
		}
		tools = c.registry.Services()[i].Catalogue.GetTools()
		return true
	})
	all := map[string]*schema.Schema{}
	for _, wire := range tools {
		var shown struct {
			Title        string              `json:"title"`
			Description  string              `json:"description"`
			OutputSchema jsontext.Value      `json:"outputSchema"`
			Annotations  mcp.ToolAnnotations `json:"annotations"`
		}
		if err := json.Unmarshal(wire.Json, &shown); err != nil {
			c.t.Fatal(err)
		}
		a := shown.Annotations
		if !wire.ReadOnly || a.ReadOnlyHint == nil || !*a.ReadOnlyHint || a.OpenWorldHint == nil || !*a.OpenWorldHint || shown.Title == "" || len(shown.Description) < 30 {
			c.t.Errorf("%s is described as %s", wire.Name, wire.Json)
		}
		if strings.Contains(string(wire.InputSchema), "null") {
			c.t.Errorf("%s: arguments may be null: %s", wire.Name, wire.InputSchema)
		}
		s, err := schema.Compile(shown.OutputSchema)
		if err != nil {
			c.t.Fatal(err)
		}
		all[wire.Name] = s
	}
	return all
}

func TestLargeFile(t *testing.T) {
	t.Parallel()
	f := newFake(t, nil)
	c := start(t, f.config())
	got := c.call("getFileContents", `{"owner":"octocat","repo":"hello","path":"large.txt","startLine":99999,"maxBytes":40}`)
	if !strings.Contains(got, `"size":1700000`) || !strings.Contains(got, `"content":"0123456789abcdef\n0123456789abcdef\n","line":99999}`) {
		t.Errorf("got %s", got)
	}
	if asked := f.asked(); asked[1] != "/repos/octocat/hello/git/blobs/c0ffee00c0ffee" {
		t.Errorf("asked for %q", asked)
	}
	c.fails("getFileContents", `{"owner":"octocat","repo":"hello","path":"large.txt","startLine":200000}`, "invalid", "only 100000 lines")
}

func TestFileBeyondTheLimit(t *testing.T) {
	t.Parallel()
	f := newFake(t, always(200, `{"type":"file","path":"x","size":99000000,"encoding":"none","content":"","sha":"c0ffee"}`))
	start(t, f.config()).fails("getFileContents", `{"owner":"o","repo":"r","path":"x"}`, "too large", "99000000 bytes")
	// Text from GitHub cannot become a path either.
	f = newFake(t, always(200, `{"type":"file","path":"x","size":9,"encoding":"none","content":"","sha":"../../user"}`))
	start(t, f.config()).fails("getFileContents", `{"owner":"o","repo":"r","path":"x"}`, "unavailable")
	if n := len(f.asked()); n != 1 {
		t.Errorf("%d requests: %q", n, f.asked())
	}
}

// A long list of long texts is cut, each with a note, and fits into a result.
func TestResultsAreBounded(t *testing.T) {
	t.Parallel()
	comment := fmt.Sprintf(`{"id":1,"user":{"login":"eve"},"body":%q}`, strings.Repeat("a", 40_000))
	f := newFake(t, func(w http.ResponseWriter, _ *http.Request, _ int) bool {
		refuse(w, http.StatusOK, "["+strings.Repeat(comment+",", 99)+comment+"]")
		return true
	})
	got := start(t, f.config()).call("listComments", `{"owner":"o","repo":"r","number":1,"perPage":100}`)
	if len(got) > 300<<10 || strings.Count(got, `"id":1`) != 100 || strings.Count(got, "[truncated: ") != 100 || !strings.Contains(got, "[truncated: 16384 of 40000 bytes]") {
		t.Errorf("%d bytes, %d comments", len(got), strings.Count(got, `"id":1`))
	}
}

// tokens gives each principal a token of its own.
type tokens map[string]string

func (t tokens) Token(_ context.Context, principal, tenant string) (string, error) {
	if token, ok := t[tenant+"/"+principal]; ok {
		return token, nil
	}
	return "", errors.New("the vault has none")
}

func TestTokensOfPrincipals(t *testing.T) {
	t.Parallel()
	f := newFake(t, nil)
	config := f.config()
	config.Tokens = tokens{"acme/ada": canary + "a", "acme/bob": canary + "b", "acme/nobody": "", "acme/broken": "x\r\nX-Evil: 1"}
	c := start(t, config)
	const arguments = `{"owner":"octocat","repo":"hello"}`
	for i, tt := range []struct{ principal, authorization, conditional string }{
		{"ada", "Bearer " + canary + "a", ""},
		{"bob", "Bearer " + canary + "b", ""},
		{"nobody", "", ""},
		{"ada", "Bearer " + canary + "a", "same"},
	} {
		if r := c.as(tt.principal, callTime, "getRepository", arguments); r.IsError {
			t.Fatal(r.text())
		}
		h := f.request(i).Header
		if h.Get("Authorization") != tt.authorization || (h.Get("If-None-Match") == "") != (tt.conditional == "") {
			t.Errorf("%s: asked with %v", tt.principal, h)
		}
	}
	for _, principal := range []string{"broken", "unknown"} {
		if r := c.as(principal, callTime, "getRepository", arguments); !r.IsError || !strings.HasPrefix(r.text(), "unavailable: there is no GitHub token") {
			t.Errorf("%s: %s", principal, r.text())
		}
	}
	if n := len(f.asked()); n != 4 {
		t.Errorf("%d requests", n)
	}
	if !strings.Contains(c.log.String(), "the vault has none") || strings.Contains(c.log.String(), "X-Evil") {
		t.Errorf("log:\n%s", c.log)
	}
}

func TestConfigurationIsChecked(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]github.Env{
		"plain HTTP":          {URL: "http://github.example.com"},
		"a password":          {URL: "https://user:" + canary + "@github.example.com"},
		"no host":             {URL: "https:///x"},
		"a query":             {URL: "https://github.example.com/?a=b"},
		"no URL":              {URL: "::" + canary},
		"a line in the token": {Token: canary + "\r\nX: y"},
		"a space in it":       {Token: canary + " "},
		"another scheme":      {URL: "file:///etc/passwd"},
		"nearly loopback":     {URL: "http://127.0.0.1.example.com"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := github.New(t.Context(), config)
			if err == nil || !strings.Contains(err.Error(), "BUSBAR_GITHUB_") || strings.Contains(err.Error(), canary) {
				t.Errorf("started, or told too much: %v", err)
			}
		})
	}
}
