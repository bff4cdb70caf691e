package docs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/database/databasetest"
)

// TestSaveAndRestore runs the commands of docs/guides/operate.md: what a system had is there
// again in another directory and database, its trail whole and its keys known.
func TestSaveAndRestore(t *testing.T) {
	t.Parallel()
	shown := only(blocks(t, "docs/guides/operate.md"), "sh")
	if len(shown) != 3 {
		t.Fatalf("the page has %d scripts: one saves, one restores, one looks", len(shown))
	}
	home := build(t)
	server := databasetest.Own(t)
	for _, name := range []string{"before", "after"} {
		if out, err := exec.Command(server.Tool("createdb"), "--maintenance-db", server.URL(), name).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	path := "PATH=" + filepath.Join(home, "bin") + ":" + filepath.Dir(server.Tool("pg_dump")) + ":" + os.Getenv("PATH")
	settings := func(name string) []string {
		return append(os.Environ(), path, "BUSBAR_DATA_DIR="+filepath.Join(home, name), "BUSBAR_DATABASE_URL="+strings.Replace(server.URL(), "/postgres?", "/"+name+"?", 1))
	}
	// shell runs a script, each command of which may be run again where NATS or Postgres
	// stood still.
	shell := func(script string, env ...string) (said string) {
		t.Helper()
		bustest.Eventually(t, "NATS and Postgres are heard", func() bool {
			cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", script)
			cmd.Dir, cmd.Env = home, env
			out, err := cmd.CombinedOutput()
			said = string(out)
			if err != nil && (bustest.StoodStill(said) || bustest.DatabaseStoodStill(said)) {
				return false
			}
			if err != nil {
				t.Fatalf("%s\n%v\n%s", script, err, out)
			}
			return true
		})
		return said
	}
	// begin starts a system and returns the environment that commands need to reach it, or its
	// output if it ended.
	begin := func(name string) (env []string, stop func(), said string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), filepath.Join(home, "bin", "busbar"), "dev", "--listen", "127.0.0.1:0", "--nats-listen", "127.0.0.1:0")
		cmd.Env, cmd.WaitDelay = settings(name), time.Minute
		var errs strings.Builder
		cmd.Stderr = &errs
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		read := bufio.NewReader(out)
		line, err := read.ReadString('\n')
		at := regexp.MustCompile(`ready: mcp=(http://\S+)/mcp nats=(nats://\S+) data=(.*)\n`).FindStringSubmatch(line)
		if at == nil {
			err = errors.Join(err, cmd.Process.Kill(), cmd.Wait())
			return nil, nil, fmt.Sprintf("%v\n%s%s", err, line, errs.String())
		}
		go func() { _, _ = io.Copy(io.Discard, read) }()
		env = append(settings(name), "BUSBAR_URL="+at[1], "BUSBAR_NATS="+at[2], "BUSBAR_NATS_NKEY="+filepath.Join(home, name, "users", "operator.secret"))
		return env, func() {
			t.Helper()
			_ = cmd.Process.Signal(syscall.SIGTERM)
			if err := cmd.Wait(); err != nil {
				t.Fatalf("busbar dev ended: %v\n%s", err, errs.String())
			}
		}, ""
	}
	run := func(name string) (env []string, stop func()) {
		t.Helper()
		bustest.Eventually(t, "Postgres is heard", func() bool { // or it ends, to be started again
			var said string
			env, stop, said = begin(name)
			if stop == nil && !strings.Contains(said, "does not answer") {
				t.Fatalf("it is not ready: %s", said)
			}
			return stop != nil
		})
		return env, stop
	}
	env, stop := run("before")
	shell(`busbar call create_resource '{"uri":"note://saved","name":"saved","text":"kept"}'`, env...)
	shell(`busbar key create laptop --principal me`, env...)
	eventually(t, "the call is in the trail", func() error {
		if out := shell("busbar audit ls", env...); !strings.Contains(out, "create_resource") {
			return errors.New(out)
		}
		return nil
	})
	stop()
	shell(shown[0], settings("before")...)
	if err := os.RemoveAll(filepath.Join(home, "before")); err != nil {
		t.Fatal(err)
	}
	shell(shown[1], settings("after")...)
	env, stop = run("after")
	defer stop()
	out := shell(shown[2], env...)
	for _, want := range []string{"kept", "laptop"} {
		if !strings.Contains(out, want) {
			t.Errorf("restored, it lacks %q:\n%s", want, out)
		}
	}
}
