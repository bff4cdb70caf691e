package github_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/busbar-mcp/busbar/libs/redact"
	"github.com/busbar-mcp/busbar/services/github/internal/limit"
)

func TestBadBodies(t *testing.T) {
	t.Parallel()
	// A whole stream: many streams in a row are also one stream.
	var compressed bytes.Buffer
	z := gzip.NewWriter(&compressed)
	if _, err := z.Write(make([]byte, 1<<20)); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	megabyte := compressed.Bytes()
	for _, tt := range []struct {
		name     string
		write    func(http.ResponseWriter)
		kind     string
		requests int
		valid    bool // it is JSON, but not the requested content
	}{
		{"a length of 1 GB", func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", strconv.Itoa(1<<30))
			w.WriteHeader(200)
		}, "too large", 1, false},
		{"no end", func(w http.ResponseWriter) {
			block := []byte(strings.Repeat("x", 1<<20))
			for range 64 {
				if _, err := w.Write(block); err != nil {
					return
				}
			}
		}, "too large", 1, false},
		{"1 GB, compressed", func(w http.ResponseWriter) {
			w.Header().Set("Content-Encoding", "gzip")
			for range 1024 {
				if _, err := w.Write(megabyte); err != nil {
					return
				}
			}
		}, "too large", 1, false},
		{"a huge error", func(w http.ResponseWriter) {
			w.WriteHeader(404)
			_, _ = w.Write([]byte(strings.Repeat("x", limit.Body+1)))
		}, "too large", 1, false},
		{"cut short", func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "1000")
			_, _ = w.Write([]byte(`{"full_name":"octocat/hello"`))
		}, "unavailable", limit.Attempts, false},
		{"broken gzip", func(w http.ResponseWriter) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write([]byte("no gzip at all"))
		}, "unavailable", limit.Attempts, false},
		{"half of its JSON", text(`{"full_name":"octocat/`), "unavailable", 1, false},
		{"a page for people", text(`<!DOCTYPE html><title>Sign in</title>`), "unavailable", 1, false},
		{"nothing", text(``), "unavailable", 1, false},
		{"null", text(`null`), "unavailable", 1, true},
		{"an empty object", text(`{}`), "unavailable", 1, true},
		{"a list", text(`[]`), "unavailable", 1, true},
		{"other types", text(`{"full_name":7}`), "unavailable", 1, true},
		{"a bad time", text(`{"full_name":"o/r","created_at":"soon"}`), "unavailable", 1, true},
		{"deep nesting", text(strings.Repeat(`{"a":`, 100_000)), "unavailable", 1, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, func(w http.ResponseWriter, _ *http.Request, _ int) bool {
				w.Header().Set("Content-Type", "application/json; charset=utf-8")
				w.Header().Set("ETag", `"x"`)
				tt.write(w)
				return true
			})
			c := start(t, f.config())
			c.fails("getRepository", theRepository, tt.kind)
			if n := len(f.asked()); n != tt.requests {
				t.Errorf("%d requests, want %d", n, tt.requests)
			}
			if tt.requests > 1 {
				return
			}
			// Broken answers are not kept: they would come back as "not modified".
			c.fails("getRepository", theRepository, tt.kind)
			if kept := f.request(1).Header.Get("If-None-Match") != ""; kept != tt.valid {
				t.Errorf("kept: %t", kept)
			}
		})
	}
}

func text(s string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) { _, _ = w.Write([]byte(s)) }
}

func TestListsOfNothing(t *testing.T) {
	t.Parallel()
	f := newFake(t, always(200, `[null]`))
	c := start(t, f.config())
	for _, tool := range []string{"listBranches", "listReleases", "listIssues", "listPullRequests", "listCommits"} {
		if got := c.call(tool, theRepository); got != `{"items":[]}` {
			t.Errorf("%s: %s", tool, got)
		}
	}
	got := c.call("getFileContents", theRepository)
	if got != `{"type":"dir","path":"","entries":[{"name":"","path":"","type":"","size":0}]}` {
		t.Errorf("directory: %s", got)
	}
}

func TestRedirects(t *testing.T) {
	t.Parallel()
	var elsewhere atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	t.Cleanup(other.Close)
	for _, tt := range []struct {
		name     string
		base     string
		to       func(n int) string
		kind     string // empty: succeeds
		requests int
	}{
		{"a renamed repository is followed", "", func(n int) string { return "/repos/octocat/hello" }, "", 2},
		{"a loop is left", "", func(n int) string { return "/repos/octocat/hello?n=" + strconv.Itoa(n) }, "unavailable", 1 + limit.Redirects},
		{"another host gets nothing", "", func(int) string { return other.URL + "/repos/octocat/hello" }, "unavailable", 1},
		{"a host with a password gets nothing", "", func(int) string { return "http://user:pass@127.0.0.1/" }, "unavailable", 1},
		{"another scheme is not followed", "", func(int) string { return "file:///etc/passwd" }, "unavailable", 1},
		{"out of the API is not followed", "/api/v3", func(int) string { return "/login" }, "unavailable", 1},
		{"dots out of the API neither", "/api/v3/", func(int) string { return "/api/v3/../../login" }, "unavailable", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, func(w http.ResponseWriter, r *http.Request, n int) bool {
				if tt.kind == "" && n > 1 {
					return false
				}
				w.Header().Set("Location", tt.to(n))
				refuse(w, 301, `{"message":"Moved Permanently"}`)
				return true
			})
			config := f.config()
			config.URL += tt.base
			c := start(t, config)
			if tt.kind == "" {
				c.call("getRepository", `{"owner":"octocat","repo":"old"}`)
			} else {
				c.fails("getRepository", theRepository, tt.kind, "to another host")
			}
			if n := len(f.asked()); n != tt.requests {
				t.Errorf("%d requests: %q", n, f.asked())
			}
			if f.request(len(f.asked())-1).Header.Get("Authorization") != "Bearer "+canary {
				t.Error("the token is lost on the way")
			}
		})
	}
	t.Cleanup(func() {
		if n := elsewhere.Load(); n > 0 {
			t.Errorf("%d requests to another host", n)
		}
	})
}

// The token never appears in a result, in whatever form GitHub or a proxy echoes it.
func TestTokenIsNotEchoed(t *testing.T) {
	t.Parallel()
	for name, form := range map[string]func(string) string{
		"as it is": func(s string) string { return s },
		"base64":   func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
		"escaped":  url.QueryEscape,
	} {
		f := newFake(t, func(w http.ResponseWriter, r *http.Request, _ int) bool {
			echo := form(r.Header.Get("Authorization"))
			_, _ = fmt.Fprintf(w, `{"full_name":%q,"name":"x","description":%q,"owner":{"login":"x"}}`, echo, echo)
			return true
		})
		got := fmt.Sprint(start(t, f.config()).call("getRepository", theRepository))
		if strings.Contains(got, canary) || strings.Contains(got, form(canary)) || !strings.Contains(got, redact.Hidden) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// A known answer is requested conditionally and returned unchanged, including its pages.
func TestNotModified(t *testing.T) {
	t.Parallel()
	f := newFake(t, nil)
	c := start(t, f.config())
	const arguments = `{"owner":"octocat","repo":"hello","perPage":3}`
	first, second := c.call("listBranches", arguments), c.call("listBranches", arguments)
	if first != second || !strings.Contains(second, `"nextPage":2`) {
		t.Errorf("first %s, then %s", first, second)
	}
	if f.request(0).Header.Get("If-None-Match") != "" || f.request(1).Header.Get("If-None-Match") == "" {
		t.Error("the second request is not conditional")
	}
	// Another representation of the same URL is another response.
	pull := `{"owner":"octocat","repo":"hello","number":8}`
	c.call("getPullRequest", pull)
	if got := c.call("getPullRequestDiff", pull); !strings.HasPrefix(got, `{"diff":"diff --git`) {
		t.Errorf("diff %s", got)
	}
	if f.request(3).Header.Get("If-None-Match") != "" {
		t.Error("the diff is asked for with the tag of the JSON")
	}
}

// Of many concurrent callers, each sees the content for its own token.
func TestManyPrincipals(t *testing.T) {
	t.Parallel()
	f := newFake(t, func(w http.ResponseWriter, r *http.Request, _ int) bool {
		who := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "+canary)
		tag := fmt.Sprintf("%q", who)
		w.Header().Set("ETag", tag)
		if r.Header.Get("If-None-Match") == tag {
			w.WriteHeader(304)
			return true
		}
		refuse(w, 200, `{"full_name":"octocat/`+who+`"}`)
		return true
	})
	config := f.config()
	all := tokens{}
	for i := range 8 {
		all["acme/p"+strconv.Itoa(i)] = canary + strconv.Itoa(i)
	}
	config.Tokens = all
	c := start(t, config)
	var calls sync.WaitGroup
	for i := range 64 {
		calls.Go(func() {
			who := strconv.Itoa(i % 8)
			if r := c.as("p"+who, callTime, "getRepository", theRepository); !strings.Contains(string(r.Structured), `"fullName":"octocat/`+who+`"`) {
				t.Errorf("%s sees %s%s", who, r.Structured, r.text())
			}
		})
	}
	calls.Wait()
}
