package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

// TestSite builds the site of the repository, and follows every link of every page.
func TestSite(t *testing.T) {
	out := t.TempDir()
	pages, err := build(os.DirFS("../.."), out, "/handbook")
	if err != nil {
		t.Fatal(err)
	}
	if pages < 50 {
		t.Errorf("%d pages", pages)
	}
	read := func(at string) string {
		raw, err := os.ReadFile(filepath.Join(out, at))
		if err != nil {
			t.Errorf("no page %s", at)
		}
		return string(raw)
	}
	links, anchors := 0, 0
	link := regexp.MustCompile(`(?:href|src)="([^"]+)"`)
	err = filepath.WalkDir(out, func(file string, _ os.DirEntry, err error) error {
		if err != nil || filepath.Ext(file) != ".html" {
			return err
		}
		at, _ := filepath.Rel(out, file)
		page := read(at)
		for _, m := range link.FindAllStringSubmatch(page, -1) {
			to, anchor, _ := strings.Cut(m[1], "#")
			if at == "404.html" { // is shown at any path, so nothing in it depends on which
				inside, is := strings.CutPrefix(to, "/handbook/")
				if to = inside; !is && !strings.HasPrefix(m[1], "data:") {
					t.Errorf("404.html has %s", m[1])
				}
			}
			if strings.HasPrefix(m[1], "data:") {
				continue
			}
			if strings.Contains(to, "://") {
				if !strings.Contains(page, `<a href="`+m[1]) {
					t.Errorf("%s loads %s", at, m[1])
				}
				continue
			}
			links++
			there := page
			if to != "" {
				there = read(filepath.Join(filepath.Dir(at), filepath.FromSlash(to)))
			}
			if anchor != "" {
				anchors++
				if !strings.Contains(there, `id="`+anchor+`"`) {
					t.Errorf("%s links to %s, which has no such heading", at, m[1])
				}
			}
		}
		return nil
	})
	if err != nil || links < 500 || anchors < 50 {
		t.Errorf("%d links, %d of them to headings: %v", links, anchors, err)
	}
	var index []section
	raw := strings.TrimSuffix(strings.TrimPrefix(read("index.js"), "const sections = "), ";\n")
	if err := json.Unmarshal([]byte(raw), &index); err != nil {
		t.Fatal(err)
	}
	finds := false
	for _, s := range index {
		finds = finds || s.URL == "docs/guides/clients.html" && s.Page == s.Heading && strings.Contains(s.Text, "tool")
	}
	if !finds {
		t.Error("the search does not know docs/guides/clients.md")
	}
}

func TestBrokenLink(t *testing.T) {
	t.Parallel()
	_, err := build(fstest.MapFS{
		"README.md": {Data: []byte("# A\n\n[b](docs/b.md) [c](c.go)\n")},
		"docs/b.md": {Data: []byte("# B\n\n[none](none.md)\n")},
		"c.go":      {Data: []byte("package c\n")},
	}, t.TempDir(), "/")
	if err == nil || !strings.Contains(err.Error(), "docs/b.md links to none.md") {
		t.Error(err)
	}
}
