package mcp_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/mcp"
)

func TestSkillURI(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		".": "skill://svc/forms", mcp.SkillFile: "skill://svc/forms/SKILL.md", "ref/a b.md": "skill://svc/forms/ref/a%20b.md",
		"ä/50%?.md": "skill://svc/forms/%C3%A4/50%25%3F.md", "a#b": "skill://svc/forms/a%23b",
	} {
		got := mcp.SkillURI("svc", "forms", path)
		if got != want {
			t.Errorf("%s is at %s, want %s", path, got, want)
		}
		if u, err := url.Parse(got); err != nil || u.Host != "svc" || strings.TrimPrefix(u.Path, "/forms") != strings.TrimSuffix("/"+path, "/.") {
			t.Errorf("%s is read as %+v, %v", got, u, err)
		}
	}
}

func TestCheckSkillName(t *testing.T) {
	t.Parallel()
	for name, ok := range map[string]bool{
		"a": true, "7": true, "pdf-forms": true, strings.Repeat("n", 64): true, "a-b-c-9": true,
		"": false, strings.Repeat("n", 65): false, "-a": false, "a-": false, "a--b": false, "A": false, "a_b": false, "a.b": false, "a/b": false, "ä": false, "a b": false, "a\n": false,
	} {
		if err := mcp.CheckSkillName(name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestCheckSkillPath(t *testing.T) {
	t.Parallel()
	for path, ok := range map[string]bool{
		"SKILL.md": true, "a/b c/ä.md": true, ".hidden": true, "..a": true, strings.Repeat("p", 256): true, strings.Repeat("d/", 15) + "f": true,
		"": false, ".": false, "/a": false, "a/": false, "a//b": false, "../a": false, "a/../b": false, "a/./b": false, "\xff": false,
		strings.Repeat("p", 257): false, strings.Repeat("d/", 16) + "f": false,
	} {
		if err := mcp.CheckSkillPath(path); (err == nil) != ok {
			t.Errorf("%q: %v", path, err)
		}
	}
}
