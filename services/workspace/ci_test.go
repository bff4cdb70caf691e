package workspace_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/libs/service/servicetest"
	"github.com/busbar-mcp/busbar/services/workspace"
)

// startCI puts the service on a bus, with one root that has a configuration.
func startCI(t *testing.T, settings workspace.CI, commands string) (*servicetest.Bus, string) {
	t.Helper()
	dir := t.TempDir()
	put(t, dir, map[string]string{".busbar/workspace.yaml": "ci:\n" + commands})
	s := servicetest.Build(t, workspace.New, workspace.Env{Env: service.Env{Log: bustest.Logger(t)}, CI: settings, Roots: []string{"main=" + dir}})
	return servicetest.Start(t, s).Answer("roots", []service.Root{}).Approve(true), dir
}

// isolated skips a test on a machine where commands cannot be isolated, after a check that none runs.
func isolated(t *testing.T, b *servicetest.Bus) {
	t.Helper()
	list := call[workspace.ListCommandsOut](t, b, "ci_list", args{})
	if list.Isolation != "refused" {
		return
	}
	if got := fails(t, b, "ci_run", args{"name": list.Commands[0].Name}); !strings.Contains(got, "nothing ran: commands do not run here") {
		t.Error(got)
	}
	t.Skip("neither bubblewrap nor namespaces work here, and nothing runs")
}

func ran(t *testing.T, b *servicetest.Bus, name string) (out workspace.RunOut) {
	t.Helper()
	if err := b.Task("ci_run", args{"name": name}).Wait().Into(&out); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return out
}

func TestRunCommands(t *testing.T) {
	t.Parallel()
	b, dir := startCI(t, workspace.CI{Environ: []string{"GREETING=hello"}}, strings.Join([]string{
		"  fails: 'echo \"$GREETING\"; echo made > made; echo \"--- FAIL: TestX (0.00s)\"; echo \"    x_test.go:4: wrong\"; echo FAIL; printf \"FAIL\\tex/x\\t0.1s\\n\"; exit 1'",
		"  passes: pwd",
		"  junit: {run: 'mkdir -p out; cat sample.xml > out/report.xml; exit 2', report: out/report.xml}",
		"  old: {run: 'true', report: sample.xml}",
		"  evil: 'echo \"ci: {}\" > .busbar/workspace.yaml; mv .busbar x; rm -rf .busbar; test -e .busbar/workspace.yaml'",
	}, "\n")+"\n")
	put(t, dir, map[string]string{"sample.xml": `<testsuite><testcase name="a"/><testcase name="b" file="/workspace/main/b.py" line="3"><failure message="no"/></testcase></testsuite>`})
	if err := os.Chtimes(filepath.Join(dir, "sample.xml"), time.Now(), time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	list := call[workspace.ListCommandsOut](t, b, "ci_list", args{})
	if len(list.Commands) != 5 || list.Commands[4] != (workspace.CommandOut{Root: "main", Name: "passes", Run: "pwd"}) {
		t.Errorf("%+v", list)
	}
	isolated(t, b)
	out := ran(t, b, "passes")
	if out.Status != "passed" || *out.Exit != 0 || out.Tail != "/workspace/main\n" || out.Written != 16 || out.Seconds <= 0 || out.Report != nil || out.Isolation != list.Isolation {
		t.Errorf("%s", text(out))
	}
	if again := call[workspace.RunOut](t, b, "ci_result", args{"id": out.ID}); text(again) != text(out) {
		t.Errorf("%s", text(again))
	}
	for _, other := range []*servicetest.Bus{b.As("eve", ""), b.As("anonymous", "acme")} {
		if got := fails(t, other, "ci_result", args{"id": out.ID}); !strings.Contains(got, "no such run of yours") {
			t.Error(got)
		}
	}
	out = ran(t, b, "fails")
	if out.Status != "failed" || *out.Exit != 1 || !strings.HasPrefix(out.Tail, "hello\n") || get(t, dir, "made") != "made\n" {
		t.Errorf("%s", text(out))
	}
	if r := out.Report; r == nil || r.Format != "go" || len(r.Failures) != 1 || r.Failures[0].Name != "ex/x.TestX" || r.Failures[0].Line != 4 {
		t.Errorf("%s", text(out))
	}
	out = ran(t, b, "junit")
	if r := out.Report; *out.Exit != 2 || r == nil || r.Format != "junit" || r.Passed != 1 || r.Failures[0].File != "main/b.py" || out.Note != "" {
		t.Errorf("%s", text(out))
	}
	if out = ran(t, b, "old"); out.Report != nil || !strings.Contains(out.Note, "older than the run") {
		t.Errorf("%s", text(out))
	}
	// A client that does not accept tasks gets the same result in one call, and receives the output
	// meanwhile.
	r := b.WithoutTasks().Call("ci_run", args{"name": "passes"})
	if err := r.Into(&out); err != nil || out.Status != "passed" || len(r.Progress) == 0 || len(r.Logs) == 0 || !strings.Contains(r.Progress[0].Message, "passes: line 1: /workspace/main") ||
		string(r.Logs[0].Data) != `{"output":"/workspace/main\n"}` || r.Logs[0].Logger != "ci" {
		t.Errorf("%v %+v", err, r)
	}
	before := get(t, dir, ".busbar/workspace.yaml")
	if out = ran(t, b, "evil"); out.Status != "passed" || get(t, dir, ".busbar/workspace.yaml") != before {
		t.Errorf("%s", text(out))
	}
	for words, a := range map[string]args{"has no such command": {"name": "pwd"}, "not in a workspace root": {"name": "passes", "root": "/etc"}, "is not a root": {"name": "passes", "root": "main/sub"}} {
		if got := fails(t, b, "ci_run", a); !strings.Contains(got, words) {
			t.Errorf("%v: %s", a, got)
		}
	}
	narrow := b.Answer("roots", []service.Root{{URI: "file://" + dir + "/out"}})
	if got := fails(t, narrow, "ci_run", args{"name": "passes", "root": "main"}); !strings.Contains(got, "of your client's roots") {
		t.Error(got)
	}
}

// A task reports its progress, can be read with ci_result, and its cancellation ends the command
// with everything that it started.
func TestRunIsCancelled(t *testing.T) {
	t.Parallel()
	b, dir := startCI(t, workspace.CI{}, "  long: 'echo under way; (setsid sleep 1000 &) ; echo > began; sleep 1000'\n")
	isolated(t, b)
	run := b.Task("ci_run", args{"name": "long"})
	bustest.Eventually(t, "word of the command", func() bool { return strings.Contains(run.Message(), "under way") })
	if out := call[workspace.RunOut](t, b, "ci_result", args{"id": run.ID()}); out.Status != "running" || out.Tail != "under way\n" || out.Exit != nil {
		t.Errorf("%s", text(out))
	}
	bustest.Eventually(t, "the command", func() bool { _, err := os.Stat(filepath.Join(dir, "began")); return err == nil })
	run.Cancel()
	if r := run.Wait(); r.Err == nil {
		t.Errorf("%+v", r)
	}
	bustest.Eventually(t, "the end of the run", func() bool {
		r := b.Call("ci_result", args{"id": run.ID()})
		var out workspace.RunOut
		return r.Into(&out) == nil && out.Status == "stopped" && out.Stopped == "cancelled"
	})
}

// Limits end a command and say so; invalid settings are refused.
func TestSettingsOfCommands(t *testing.T) {
	t.Parallel()
	b, _ := startCI(t, workspace.CI{Time: time.Second}, "  long: sleep 1000\n")
	isolated(t, b)
	if out := ran(t, b, "long"); out.Status != "stopped" || out.Stopped != "time" || out.Exit != nil {
		t.Errorf("%s", text(out))
	}
	for words, c := range map[string]workspace.CI{
		"use auto, ": {}, "limit of commands": {Time: time.Millisecond}, "not an absolute path": {ReadOnly: []string{"usr"}}, "whole file system": {ReadOnly: []string{"/"}},
		"their own": {ReadOnly: []string{"/proc"}}, "not a valid variable": {Environ: []string{"=x"}},
	} {
		if words == "use auto, " {
			c.Isolation = "none"
		}
		if _, err := workspace.New(t.Context(), workspace.Env{CI: c}); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	b, _ = startCI(t, workspace.CI{Isolation: "commands-may-do-all-this-service-may"}, "  where: pwd\n")
	if out := ran(t, b, "where"); out.Isolation != "commands-may-do-all-this-service-may" || out.Status != "passed" {
		t.Errorf("%s", text(out))
	}
}

// No tool lets a model add a command that people have not listed.
func TestCommandsAreNotSelfMade(t *testing.T) {
	t.Parallel()
	b, dir := startCI(t, workspace.CI{}, "  ok: pwd\n")
	const evil = "ci:\n  evil: id\n"
	put(t, dir, map[string]string{"sub/workspace.yaml": evil, "sub/x": ""})
	for link, to := range map[string]string{"link": ".busbar", "here": ".", "file": ".busbar/workspace.yaml"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range []string{".busbar/workspace.yaml", ".BUSBAR/workspace.yaml", ".busbar./workspace.yaml", ".buſbar/workspace.yaml", ".busbar::$INDEX_ALLOCATION/workspace.yaml", "busbar~1/workspace.yaml", "./.busbar/workspace.yaml",
		"link/workspace.yaml", "here/.busbar/workspace.yaml", "file", dir + "/.busbar/workspace.yaml", ".\u200cbusbar/workspace.yaml"} {
		fails(t, b, "filesystem_write", args{"path": p, "text": evil})
		fails(t, b, "filesystem_edit", args{"path": p, "edits": []args{{"oldText": "pwd", "newText": "id"}}})
		fails(t, b, "filesystem_move", args{"from": "sub/workspace.yaml", "to": p})
		if p != "file" { // a link itself may be removed
			fails(t, b, "filesystem_move", args{"from": p, "to": "moved"})
			fails(t, b, "filesystem_delete", args{"path": p})
		}
	}
	for _, a := range []args{{"from": "sub", "to": ".busbar"}, {"from": "main", "to": "other"}, {"from": ".busbar", "to": "x"}, {"from": ".", "to": "x"}} {
		fails(t, b, "filesystem_move", a)
	}
	fails(t, b, "filesystem_delete", args{"path": "main", "recursive": true})

	// Only a person can check out a commit with another configuration.
	git := func(a ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"}, a...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v %s", a, err, out)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, ".gitignore"), []byte("/link\n/here\n/file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	git("init", "-q", "-b", "main")
	git("add", ".")
	git("commit", "-qm", "one")
	git("checkout", "-qb", "evil")
	put(t, dir, map[string]string{".busbar/workspace.yaml": evil})
	git("commit", "-qam", "two")
	git("checkout", "-q", "main")
	git("checkout", "-qb", "none")
	git("rm", "-q", "-r", ".busbar")
	git("commit", "-qm", "three")
	git("checkout", "-q", "main")
	git("branch", "same")
	for _, revision := range []string{"evil", "none"} {
		if got := fails(t, b, "git_checkout", args{"revision": revision}); !strings.Contains(got, ".busbar/workspace.yaml, which decides what may run here") {
			t.Error(got)
		}
	}
	call[struct{ Branch string }](t, b, "git_checkout", args{"revision": "same"})

	list := call[workspace.ListCommandsOut](t, b, "ci_list", args{})
	if !slices.Equal(list.Commands, []workspace.CommandOut{{Root: "main", Name: "ok", Run: "pwd"}}) {
		t.Errorf("%+v", list)
	}
}
