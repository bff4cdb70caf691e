package access_test

import (
	"strings"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/services/edge/access"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// waiving is a file that waives approvals that tools ask for, for all callers and for a
// role.
const waiving = `
require_approval:
  - tools/filesystem_delete
  - tools/git_*
roles:
  writer:
    allow: ["*"]
  robot:
    allow: ["*"]
    waive_approval:
      - tools/filesystem_*
      - tools/ci_run
  admin:
    approve:
      - tools/git_*
waive_approval:
  - tools/note_*lines
  - tools/git_add
`

// Whether a call needs approval is decided in one place: by what the file requires, what
// the tool says, and what is waived. A required approval is never waived.
func TestApprovalIsDecidedInOnePlace(t *testing.T) {
	t.Parallel()
	p := parse(t, waiving)
	writer, robot := gateway.Principal{Name: "w", Roles: []string{"writer"}}, gateway.Principal{Name: "r", Roles: []string{"writer", "robot"}}
	needed, waived := gateway.Demand{Needed: true}, gateway.Demand{Waived: true}
	for _, c := range []struct {
		who  gateway.Principal
		tool string
		says bool
		want gateway.Demand
	}{
		{writer, "echo", false, gateway.Demand{}},
		{writer, "echo", true, needed},
		{writer, "filesystem_delete", false, needed},
		{robot, "filesystem_delete", true, needed},
		{writer, "filesystem_write", true, needed},
		{robot, "filesystem_write", true, waived},
		{robot, "filesystem_write", false, gateway.Demand{}},
		{gateway.Anonymous, "note_wraplines", true, waived},
		{writer, "note_wrap", true, needed},
		{robot, "git_add", true, gateway.Demand{Needed: true, Others: true}},
	} {
		if got := p.Approval(c.who, c.tool, c.says); got != c.want {
			t.Errorf("%s, which says %v, for %s: %+v, want %+v", c.tool, c.says, c.who.Name, got, c.want)
		}
	}
	steps := func(who gateway.Principal, tool string) string {
		e := p.Explain(who, target(t, "tools/"+tool), nil, time.Now())
		return strings.Join(e.Steps, "\n")
	}
	for _, c := range []struct {
		tool, want string
	}{
		{"filesystem_write", "waive_approval tools/filesystem_* of role robot: nobody has to agree to a call, whatever the tool says"},
		{"filesystem_delete", "waives nothing here"},
		{"note_lines", "waive_approval tools/note_*lines: nobody has to agree"},
	} {
		if got := steps(robot, c.tool); !strings.Contains(got, c.want) {
			t.Errorf("%s is explained as\n%s\nwithout %q", c.tool, got, c.want)
		}
	}
	odd := ""
	for _, one := range p.Check(map[access.Kind][]string{access.Tools: {"filesystem_delete", "git_add", "git_commit", "filesystem_write", "note_lines"}}) {
		odd += one.String() + "\n"
	}
	for _, want := range []string{"line 18: tools/git_add is never waived: require_approval has tools/git_*", "line 12: the edge has no tools/ci_run"} {
		if !strings.Contains(odd, want) {
			t.Errorf("check says\n%s\nwithout %q", odd, want)
		}
	}
}

// A file that is cut off, at whatever byte, waives nothing that the whole file does not
// waive.
func TestACutFileWaivesNothingMore(t *testing.T) {
	t.Parallel()
	tools := []string{"filesystem_delete", "filesystem_write", "git_add", "git_commit", "ci_run", "ci_runs", "note_lines", "note_wrap", "note_", "n", "echo"}
	for name, file := range map[string]string{
		"block": waiving,
		"flow":  "require_approval: [tools/filesystem_delete, \"tools/git_*\"]\nroles: {robot: {allow: [\"*\"], waive_approval: [\"tools/filesystem_*\", tools/ci_run]}}\nwaive_approval: [tools/note_*lines, tools/git_add]\n",
	} {
		whole, who := parse(t, file), gateway.Principal{Name: "r", Roles: []string{"robot"}}
		read := 0
		for n := range file {
			cut, err := access.Parse([]byte(file[:n]))
			if err != nil {
				continue
			}
			read++
			for _, tool := range tools {
				if cut.Approval(who, tool, true).Waived && !whole.Approval(who, tool, true).Waived {
					t.Errorf("%s, cut after %d bytes, waives %s:\n%s", name, n, tool, file[:n])
				}
			}
		}
		if read == 0 {
			t.Errorf("%s: no part of the file could be read, so nothing was tried", name)
		}
	}
	for file, want := range map[string]string{
		"waive_approval: [tools/a]\n":                                     "require_approval has to stand above",
		"waive_approval: [tools/a]\nrequire_approval: []\n":               "require_approval has to stand above",
		"roles: {a: {waive_approval: [tools/a]}}\n":                       "require_approval has to stand above",
		"require_approval: []\nwaive_approval: [tools/a]":                 "ends with the end of a line",
		"require_approval: []\nwaive_approval: [resources/a]\n":           "is of no tool",
		"require_approval:\nwaive_approval: [tools/a]\n":                  "require_approval is a list",
		"require_approval: []\nwaive_approval:\n":                         "waive_approval is a list",
		"require_approval: [tools/a, tools/a]\nwaive_approval: [\"*\"]\n": "there twice",
	} {
		if _, err := access.Parse([]byte(file)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\nis %v, want %s", file, err, want)
		}
	}
}
