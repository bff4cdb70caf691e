package house

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A machine that allows no container engine is told so in a line of its own. By hand that is a
// failure; where it may be so it passes, with the same line.
func TestNoEngine(t *testing.T) {
	t.Parallel()
	programs := t.TempDir()
	for name, text := range map[string]string{"docker": "exit 1", "id": "echo 1000"} {
		if err := os.WriteFile(filepath.Join(programs, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		command []string
		env     string
		status  int
	}{
		{[]string{"scripts/engine", "true"}, "", 77},
		{[]string{"make", "compose"}, "MAY_LACK_ENGINE=", 2},
		{[]string{"make", "compose"}, "MAY_LACK_ENGINE=1", 0},
	} {
		cmd := exec.CommandContext(t.Context(), c.command[0], c.command[1:]...)
		cmd.Dir = root(t)
		if filepath.Base(c.command[0]) != c.command[0] {
			cmd.Path = filepath.Join(cmd.Dir, c.command[0])
		}
		cmd.Env = append(os.Environ(), "PATH="+programs+":"+os.Getenv("PATH"), c.env)
		out, err := cmd.CombinedOutput()
		status := 0
		if failed := new(exec.ExitError); errors.As(err, &failed) {
			status = failed.ExitCode()
		} else if err != nil {
			t.Fatal(err)
		}
		if status != c.status || !strings.Contains("\n"+string(out), "\nNOT RUN: no container engine here: it takes root\n") {
			t.Errorf("%v, %q: exit status %d, want %d\n%s", c.command, c.env, status, c.status, out)
		}
	}
}
