package outside

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/bustest/programs"
)

var (
	step = regexp.MustCompile(`(?m)^## \d+\. `)
	// shown is a block of the page, with the file that it is if the page names one.
	shown = regexp.MustCompile("(?ms)^(?:\\*\\*`([\\w/.]+)`\\*\\*[^#`]*?\n\n)?```(\\w*)\n(.*?)^```$")
)

// guest is a person who follows the tutorial, in a directory of their own.
type guest struct {
	home, dir string
	env       []string
	bus, door string
	key       string
	running   map[string]*exec.Cmd // by its first word
}

// TestTutorial does each step of docs/tutorial/first-service.md in an empty directory: it writes
// the files, runs the commands, and compares what they print. At the end there is examples/notes,
// byte for byte.
func TestTutorial(t *testing.T) {
	t.Parallel()
	env, err := released()
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	built, err := programs.Build(root, "./services/busbar/cmd/busbar")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs/tutorial/first-service.md"))
	if err != nil {
		t.Fatal(err)
	}
	g := &guest{home: t.TempDir(), running: map[string]*exec.Cmd{}}
	g.dir = filepath.Join(g.home, "notes")
	g.env = append(slices.Clone(env), "XDG_STATE_HOME="+filepath.Join(g.home, "state"), "PATH="+filepath.Dir(built[0])+":"+os.Getenv("PATH"))
	steps := step.Split(string(page), -1)[1:]
	if len(steps) != 5 {
		t.Fatalf("the page has %d steps", len(steps))
	}
	files, printed := map[string]string{}, 0
	for _, text := range steps {
		for _, m := range shown.FindAllStringSubmatch(text, -1) {
			switch name, language, block := m[1], m[2], m[3]; {
			case name == "go.mod":
				old, err := os.ReadFile(filepath.Join(g.dir, name))
				if err != nil {
					t.Fatal(err)
				}
				g.write(t, name, string(old)+"\n"+block)
			case name != "":
				files[name] = block
				g.write(t, name, block)
			case language == "sh":
				for line := range strings.Lines(block) {
					g.do(t, strings.TrimSpace(line))
				}
			case language == "console":
				for _, one := range strings.Split("\n"+block, "\n$ ")[1:] {
					command, want, _ := strings.Cut(one, "\n")
					g.look(t, command, strings.TrimSpace(want))
					printed++
				}
			default:
				t.Errorf("nobody knows what to do with\n%s", m[0])
			}
		}
	}
	if printed < 8 {
		t.Errorf("%d commands print something", printed)
	}
	for _, name := range []string{"main.go", "main_test.go", "migrations/both/00001_note.sql"} {
		want, err := os.ReadFile(filepath.Join(root, "examples/notes", name))
		if err != nil {
			t.Fatal(err)
		}
		if files[name] != string(want) {
			t.Errorf("the tutorial ends with another %s than examples/notes has; copy it there", name)
		}
	}
}

func (g *guest) write(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(g.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// do runs a command. A program that goes on running replaces the one that an earlier step started.
func (g *guest) do(t *testing.T, line string) {
	t.Helper()
	words := strings.Fields(line)
	switch {
	case strings.HasPrefix(line, "mkdir "):
		run(t, g.env, g.home, "bash", "-c", line)
	case strings.HasPrefix(line, "busbar dev"):
		// Any free ports, which stay the same when it starts again; one bundled service is enough.
		listen, nats := "127.0.0.1:0", "127.0.0.1:0"
		if g.bus != "" {
			listen, nats = g.door, g.bus
		}
		ready := g.start(t, "busbar", append(words, "--services", "text", "--listen", listen, "--nats-listen", nats))
		at := regexp.MustCompile(`mcp=http://(\S+)/mcp nats=nats://(\S+)`).FindStringSubmatch(ready)
		if at == nil {
			t.Fatalf("it does not say where it listens: %s", ready)
		}
		g.door, g.bus = at[1], at[2]
	case strings.HasPrefix(line, "go run . "):
		run(t, g.env, g.dir, "go", "vet", "./...")
		program := filepath.Join(g.home, "program")
		g.stop(t, program)
		run(t, g.env, g.dir, "go", "build", "-o", program, ".")
		g.start(t, program, append([]string{program}, strings.Fields(strings.ReplaceAll(strings.TrimPrefix(line, "go run . "), "127.0.0.1:4222", g.bus))...))
	case words[0] == "go":
		run(t, g.env, g.dir, words[0], words[1:]...)
	default:
		t.Errorf("nobody does %q", line)
	}
}

// stop presses Ctrl-C.
func (g *guest) stop(t *testing.T, name string) {
	t.Helper()
	if cmd := g.running[name]; cmd != nil {
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		delete(g.running, name)
	}
}

// start starts a program, which runs until it is started again or the test ends. It returns the
// line that says that the program is ready.
func (g *guest) start(t *testing.T, name string, words []string) (ready string) {
	t.Helper()
	g.stop(t, name)
	cmd := exec.CommandContext(t.Context(), "bash", "-c", `exec "$@"`, "bash")
	cmd.Args = append(cmd.Args, words...)
	cmd.Dir, cmd.Env = g.dir, g.env
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	g.running[name] = cmd
	t.Cleanup(func() { g.stop(t, name) })
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if strings.Contains(lines.Text(), " is ready: ") {
			go func() {
				for lines.Scan() {
				}
			}()
			return lines.Text()
		}
	}
	t.Fatalf("%q never was ready", words)
	return ""
}

// look runs a command and compares what it prints, where "…" is anything.
func (g *guest) look(t *testing.T, command, want string) {
	t.Helper()
	var got string
	bustest.Eventually(t, "the edge has heard of the service", func() bool {
		cmd := exec.CommandContext(t.Context(), "bash", "-c", strings.ReplaceAll(command, "bb_…", g.key))
		cmd.Dir, cmd.Env = g.dir, append(slices.Clone(g.env), "BUSBAR_URL=http://"+g.door, "BUSBAR_NATS=nats://"+g.bus)
		out, _ := cmd.CombinedOutput() // an exit status belongs to some of them
		got = strings.TrimSpace(string(out))
		return !strings.Contains(got, "Unknown tool")
	})
	if key := regexp.MustCompile(`bb_[a-z2-7]{8}_[a-z2-7]{32}`).FindString(got); key != "" {
		g.key = key
	}
	form := strings.ReplaceAll(regexp.QuoteMeta(want), "…", ".*")
	if !regexp.MustCompile("^(?s:" + form + ")$").MatchString(got) {
		t.Errorf("%s\ngot\n%s\nwant\n%s", command, got, want)
	}
}
