package e2e

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/busbar-mcp/busbar/test/testservice"

	"github.com/busbar-mcp/busbar/libs/bustest"
)

// busbar runs a command to its end, without a terminal.
func busbar(t testing.TB, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bustest.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "busbar"), args...)
	var out, errs bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr = append(environment(), env...), &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("busbar %v: %v", args, err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

var approveNext = regexp.MustCompile("run `busbar approve ([A-Z2-7]{26}) --url ")

// TestApproval holds calls and decides on them by the command line, after all of Busbar was started again.
func TestApproval(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]syscall.Signal{"stopped": syscall.SIGTERM, "killed": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ledger := &testservice.Ledger{}
			// up is a Busbar on the data directory, with its URL.
			data := t.TempDir()
			up := func() (p *process, url string, leave func()) {
				p = start(t, "busbar", "dev", "--listen", "127.0.0.1:0", "--nats-listen", "127.0.0.1:0", "--data-dir", data)
				at := p.awaitReady()
				leave = serve(t, at.nats, testservice.New(ledger))
				eventually(t, "the tool is there", func() bool {
					_, tools, _ := busbar(t, nil, "tools", "--url", at.mcp)
					return strings.Contains(tools, "approved\t")
				})
				return p, at.mcp, leave
			}
			first, url, leave := up()
			var held []string
			for _, key := range []string{"yes", "no", "late"} {
				code, out, said := busbar(t, nil, "call", "approved", `{"key":"`+key+`"}`, "--url", url)
				next := approveNext.FindStringSubmatch(said)
				if code != 5 || out != "" || next == nil {
					t.Fatalf("%s: exit %d, %q, %q", key, code, out, said)
				}
				held = append(held, next[1])
			}
			leave()
			first.signal(end)
			first.wait(bustest.Patience)

			_, url, _ = up()
			if code, out, _ := busbar(t, nil, "approve", "--url", url); code != 0 || strings.Count(out, "\tapproved\tanonymous\n") != 3 || !strings.HasPrefix(out, held[0]+"\t") {
				t.Errorf("lists, with exit %d: %q", code, out)
			}
			if code, _, said := busbar(t, nil, "approve", held[0], "--url", url); code != 2 || !strings.Contains(said, `"key": "yes"`) || !strings.Contains(said, "--yes") {
				t.Errorf("asked nobody, with exit %d: %q", code, said)
			}
			if code, out, said := busbar(t, nil, "approve", held[0], "--yes", "--url", url); code != 0 || out != `{"runs":1}`+"\n" {
				t.Errorf("agreed, with exit %d: %q, %q", code, out, said)
			}
			if code, _, said := busbar(t, nil, "approve", held[0], "--yes", "--url", url); code != 4 || !strings.Contains(said, "unknown_approval") {
				t.Errorf("agreed again, with exit %d: %q", code, said)
			}
			if code, _, said := busbar(t, nil, "approve", held[1], "--deny", "--url", url); code != 0 || !strings.HasSuffix(said, "denied: approved will not run\n") {
				t.Errorf("denied, with exit %d: %q", code, said)
			}
			if code, out, _ := busbar(t, nil, "approve", "--json", "--url", url); code != 0 || strings.Count(out, `"approval"`) != 1 || !strings.Contains(out, held[2]) {
				t.Errorf("left is, with exit %d: %s", code, out)
			}
			for key, want := range map[string]int{"yes": 1, "no": 0, "late": 0} {
				if n := ledger.Runs(key); n != want {
					t.Errorf("%s ran %d times, want %d", key, n, want)
				}
			}
		})
	}
}
