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
	"reflect"
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
		"bin/busbar call analyzeText": only(page, "json")[0],
		"bin/busbar call greet":       `{"greeting":"Hello, bus!"}`,
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
				if err != nil {
					return fmt.Errorf("%w\n%s", err, out)
				}
				return sameJSON(out, []byte(want))
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

// sameJSON compares two JSON values.
func sameJSON(got, want []byte) error {
	var values [2]any
	for i, text := range [][]byte{got, want} {
		if err := json.Unmarshal(text, &values[i]); err != nil {
			return fmt.Errorf("%w: %s", err, text)
		}
	}
	if !reflect.DeepEqual(values[0], values[1]) {
		return fmt.Errorf("got %s, want %s", got, want)
	}
	return nil
}

// The README is short, and its service is examples/hello.
func TestReadmeService(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile(filepath.Join(root, "examples/hello/main.go"))
	if err != nil {
		t.Fatal(err)
	}
	if shown := only(blocks(t, "README.md"), "go"); len(shown) != 1 || shown[0] != string(source) {
		t.Error("the README differs from examples/hello/main.go; copy it there")
	}
	page, err := os.ReadFile(filepath.Join(root, "README.md"))
	if lines := bytes.Count(page, []byte("\n")); err != nil || lines > 120 {
		t.Errorf("the README has %d lines (%v); 120 are the limit", lines, err)
	}
}
