// Command pictures draws terminal sessions as SVG, for light and for dark pages. A source is a
// file docs/pictures/NAME.session: lines that start with "$ " are commands, lines that start with
// "# " are for the reader of the source. The program runs each command in a terminal of its own,
// against a "busbar dev" that it starts, and draws what the command prints. Times, durations and
// ids differ in every run, so it replaces them. scripts/pictures/draw builds busbar and runs this
// program; start reading at main.
package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

const (
	folder  = "docs/pictures"
	bin     = ".tmp/pictures/bin" // with busbar, as scripts/pictures/draw builds it
	columns = 92
	limit   = 2 * time.Minute // for all sessions
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "pictures:", err)
		os.Exit(1)
	}
}

// run draws the sessions among names, which are files of the folder.
func run(ctx context.Context, names []string) error {
	for _, name := range names {
		if filepath.Ext(name) != ".session" {
			continue
		}
		source, err := os.ReadFile(filepath.Join(folder, name))
		if err == nil {
			err = draw(ctx, name, source)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// draw runs one session against a system of its own and writes its two pictures.
func draw(ctx context.Context, name string, source []byte) error {
	data, err := os.MkdirTemp("", "pictures")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(data) }()
	dev, err := start(ctx, data)
	if err != nil {
		return err
	}
	var text strings.Builder
	for line := range strings.Lines(string(source)) {
		command, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "$ ")
		if !ok {
			continue
		}
		text.WriteString(prompt + command + "\n")
		said := dev.ready + "\n"
		if command != "busbar dev" {
			if said, err = dev.terminal(ctx, command); err != nil {
				break
			}
		}
		text.WriteString(said)
	}
	if err = errors.Join(err, dev.stop()); err != nil {
		return err
	}
	sum := fmt.Sprintf("<!-- drawn from %s, sha256 %x -->\n", name, sha256.Sum256(source))
	lines := normalize(parse(dev.usual(text.String())))
	for suffix, theme := range themes {
		out := filepath.Join(folder, strings.TrimSuffix(name, ".session")+suffix+".svg")
		if err := os.WriteFile(out, []byte(render(lines, theme)+sum), 0o644); err != nil {
			return err
		}
		fmt.Println(out)
	}
	return nil
}

// system is a running "busbar dev".
type system struct {
	cmd               *exec.Cmd
	ready, data       string // its first line; its data directory
	mcpHost, natsHost string
}

var readyLine = regexp.MustCompile(`mcp=http://(\S+)/mcp nats=nats://(\S+) data=`)

func start(ctx context.Context, data string) (*system, error) {
	s := &system{data: data}
	s.cmd = exec.CommandContext(ctx, filepath.Join(bin, "busbar"), "dev", "--listen", "127.0.0.1:0", "--nats-listen", "127.0.0.1:0", "--data-dir", data)
	s.cmd.Stderr = os.Stderr
	out, err := s.cmd.StdoutPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	found := readyLine.FindStringSubmatch(line)
	if err != nil || found == nil {
		return nil, errors.Join(fmt.Errorf("busbar dev says %q", line), err, s.stop())
	}
	s.ready, s.mcpHost, s.natsHost = strings.TrimSpace(line), found[1], found[2]
	return s, nil
}

func (s *system) stop() error {
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	return s.cmd.Wait()
}

// terminal runs a command in a terminal and returns what it prints. The command may fail: a
// picture may show an error.
func (s *system) terminal(ctx context.Context, command string) (string, error) {
	path, err := filepath.Abs(bin)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "script", "-q", "-c", fmt.Sprintf("stty cols %d rows 40; %s", columns, command), "/dev/null")
	cmd.Env = append(os.Environ(), "PATH="+path+":"+os.Getenv("PATH"), "SHELL=/bin/sh", "TERM=xterm-256color", "NO_COLOR=",
		"BUSBAR_URL=http://"+s.mcpHost, "BUSBAR_NATS=nats://"+s.natsHost, "BUSBAR_DATA_DIR="+s.data)
	cmd.Stdin = strings.NewReader("") // nobody types
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return "", err
	}
	return strings.ReplaceAll(string(out), "\r\n", "\n"), nil
}

// usual replaces the addresses and the directory of this run with the ones that a user sees.
func (s *system) usual(text string) string {
	return strings.NewReplacer(s.mcpHost, "127.0.0.1:8000", s.natsHost, "127.0.0.1:4222", s.data, "~/.local/state/busbar/dev").Replace(text)
}
