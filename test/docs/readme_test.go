// Package docs runs what the documentation says.
package docs

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
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

	"github.com/busbar-mcp/busbar/libs/bustest/programs"
)

const root = "../.."

// block is one fenced block of a page.
type block struct{ language, text string }

func blocks(t *testing.T, page string) []block {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	var out []block
	for _, m := range regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$").FindAllStringSubmatch(string(raw), -1) {
		out = append(out, block{m[1], m[2]})
	}
	return out
}

// only returns the blocks of one language.
func only(all []block, language string) (out []string) {
	for _, b := range all {
		if b.language == language {
			out = append(out, b.text)
		}
	}
	return out
}

// build puts the programs where the README has them, in a folder of the test.
func build(t *testing.T) (home string) {
	t.Helper()
	home = t.TempDir()
	built, err := programs.Build(root, "./services/busbar/cmd/busbar", "./examples/hello")
	if err == nil {
		err = os.Mkdir(filepath.Join(home, "bin"), 0o755)
	}
	for _, program := range built {
		if err == nil {
			err = os.Symlink(program, filepath.Join(home, "bin", filepath.Base(program)))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return home
}

// start runs a program until the test ends and returns its first line.
func start(t *testing.T, cmd *exec.Cmd) (ready string) {
	t.Helper()
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s ended: %v\n%s", cmd.Args[0], err, errs.String())
		}
	})
	ready, err = bufio.NewReader(out).ReadString('\n')
	if err != nil && err != io.EOF {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return ready
}

// TestReadme runs the README's commands in its order against a system on free
// ports: the addresses in the text are replaced, nothing else.
func TestReadme(t *testing.T) {
	t.Parallel()
	page := blocks(t, "README.md")
	home := build(t)
	data := t.TempDir()
	dev := exec.Command(filepath.Join(home, "bin", "busbar"), "dev", "--listen", "127.0.0.1:0", "--nats-listen", "127.0.0.1:0", "--data-dir", data)
	ready := start(t, dev)
	addresses := regexp.MustCompile(`^busbar dev is ready: mcp=http://(\S+)/mcp nats=nats://(\S+) data=`).FindStringSubmatch(ready)
	if addresses == nil {
		t.Fatalf("ready line: %q", ready)
	}
	here := strings.NewReplacer("127.0.0.1:8000", addresses[1], "127.0.0.1:4222", addresses[2])

	shell := func(ctx context.Context, script string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", here.Replace(script))
		cmd.Dir = home
		cmd.Env = append(os.Environ(), "BUSBAR_URL=http://"+addresses[1], "BUSBAR_DATA_DIR="+data)
		return cmd
	}
	wants := map[string]string{
		"bin/busbar tools":                     `"wordCount":4`,
		"curl -s http://127.0.0.1:8000/mcp":    `"resultType":"complete"`,
		"curl -s http://127.0.0.1:8000/tools/": `"is_error":false`,
		"echo '{":                              `"is_error":false`,
		"bin/busbar audit ls":                  "analyzeText",
		"bin/busbar call greet":                `{"greeting":"Hello, bus!"}`,
	}
	for _, script := range only(page, "sh") {
		switch {
		case strings.HasPrefix(script, "make "):
			target := strings.Fields(script)[1]
			makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
			if err != nil || !bytes.Contains(makefile, []byte("\n"+target+":")) {
				t.Errorf("the Makefile has no target %s (%v)", target, err)
			}
		case strings.HasPrefix(script, "bin/hello"):
			hello := shell(context.Background(), "exec "+script)
			startQuiet(t, hello)
		default:
			want := ""
			for prefix, w := range wants {
				if strings.HasPrefix(script, prefix) {
					want = w
				}
			}
			if want == "" {
				t.Errorf("no expectation for\n%s", script)
				continue
			}
			eventually(t, script, func() error {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				out, err := shell(ctx, script).CombinedOutput()
				if err != nil || !bytes.Contains(out, []byte(want)) {
					return fmt.Errorf("%w\n%s", err, out)
				}
				return nil
			})
		}
	}
}

// startQuiet runs a program that says nothing on standard output.
func startQuiet(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v ended: %v", cmd.Args, err)
		}
	})
}

func eventually(t *testing.T, what string, try func() error) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("%s\n%v", what, err)
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// TestReadmeService keeps the README's service and its test those of examples/hello.
func TestReadmeService(t *testing.T) {
	t.Parallel()
	shown := only(blocks(t, "README.md"), "go")
	for i, file := range []string{"main.go", "main_test.go"} {
		source, err := os.ReadFile(filepath.Join(root, "examples/hello", file))
		if err != nil {
			t.Fatal(err)
		}
		if len(shown) != 2 || shown[i] != string(source) {
			t.Errorf("the README differs from examples/hello/%s; copy it there", file)
		}
	}
}

// TestReadmeDesktop starts what the README puts into a desktop client's
// configuration, and asks it for its tools.
func TestReadmeDesktop(t *testing.T) {
	t.Parallel()
	var config struct {
		Servers map[string]struct {
			Command string   `json:"command"`
			Args    []string `json:"args"`
		} `json:"mcpServers"`
	}
	if err := json.Unmarshal([]byte(only(blocks(t, "README.md"), "json")[0]), &config); err != nil {
		t.Fatal(err)
	}
	server := config.Servers["busbar"]
	if filepath.Base(server.Command) != "busbar" {
		t.Fatalf("command: %q", server.Command)
	}
	cmd := exec.Command(filepath.Join(build(t), "bin", "busbar"), server.Args...)
	cmd.Env = append(os.Environ(), "BUSBAR_DATA_DIR="+t.TempDir())
	cmd.Stdin = strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}` + "\n")
	if out, err := cmd.Output(); err != nil || !bytes.Contains(out, []byte(`"name":"analyzeText"`)) {
		t.Errorf("%v\n%s", err, out)
	}
}
