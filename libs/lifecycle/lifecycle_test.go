package lifecycle

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/leaktest"
)

// Environment variables that turn the test binary into a program that is starting, and one that
// fails.
const (
	starting = "BUSBAR_TEST_STARTING"
	failing  = "BUSBAR_TEST_FAILING"
)

func TestMain(m *testing.M) {
	if os.Getenv(starting) != "" {
		os.Args = os.Args[:1]
		Main("program", "waits for what never comes", &waits{})
		return
	}
	if os.Getenv(failing) != "" {
		os.Args = os.Args[:1]
		Main("program", "fails once it is ready", &fails{})
		return
	}
	if os.Getenv(making) != "" {
		makeGarbage()
		return
	}
	leaktest.Main(m)
}

type fails struct{ Flags }

func (*fails) Run(out io.Writer) error {
	Print(out, slog.LevelInfo, "busbar is ready: here")
	return errors.New("reach the bus: gone")
}

type waits struct{}

func (*waits) Run(ctx context.Context) error {
	fmt.Println("starting")
	<-ctx.Done()
	return fmt.Errorf("reach the bus: %w", ctx.Err())
}

// A program that is asked to stop while it starts exits with the status of the signal, not with an
// error.
func TestSignalsWhileStarting(t *testing.T) {
	for s, code := range map[syscall.Signal]int{syscall.SIGTERM: 143, syscall.SIGINT: 130} {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), starting+"=1")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(out).ReadString('\n'); line != "starting\n" {
			t.Errorf("%q %v", line, err)
		}
		if err := cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		if got := cmd.ProcessState.ExitCode(); got != code {
			t.Errorf("%v: exits with %d, want %d", s, got, code)
		}
	}
}

// With a log in JSON all output of a program is JSON: the line when it is ready, and the error that
// ends it.
func TestEverythingSaidIsJSON(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), failing+"=1", "BUSBAR_LOG_JSON=true")
	out, err := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != 1 {
		t.Errorf("exits with %d: %v", code, err)
	}
	var said []string
	for line := range strings.Lines(string(out)) {
		var record struct{ Time, Level, Msg string }
		if err := json.Unmarshal([]byte(line), &record); err != nil || record.Time == "" {
			t.Errorf("%q: %v", line, err)
		}
		said = append(said, record.Level+" "+record.Msg)
	}
	if want := []string{"INFO busbar is ready: here", "ERROR program: reach the bus: gone"}; !slices.Equal(said, want) {
		t.Errorf("it says %q", said)
	}
}

// A state directory with a relative path is ignored.
func TestDataDir(t *testing.T) {
	t.Setenv("BUSBAR_DATA_DIR", "")
	t.Setenv("HOME", "/home/ada")
	for state, want := range map[string]string{
		"/var/state": "/var/state/busbar/text", "": "/home/ada/.local/state/busbar/text",
		"state": "/home/ada/.local/state/busbar/text", "./state": "/home/ada/.local/state/busbar/text",
	} {
		t.Setenv("XDG_STATE_HOME", state)
		if got, err := DataDir("text"); got != want || err != nil {
			t.Errorf("with XDG_STATE_HOME %q: %s, %v", state, got, err)
		}
	}
}

// Not parallel: signals reach every test of the process.
func TestSignals(t *testing.T) {
	exited := make(chan int, 1)
	exit = func(code int) { exited <- code }
	defer func() { exit = os.Exit }()
	for name, c := range map[string]struct {
		first, second syscall.Signal
		code          int
	}{
		"interrupt twice": {syscall.SIGINT, syscall.SIGINT, 130},
		"terminate":       {syscall.SIGTERM, syscall.SIGTERM, 143},
		"mixed":           {syscall.SIGTERM, syscall.SIGINT, 130},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, stop := Context(t.Context())
			defer stop()
			if ctx.Err() != nil {
				t.Fatal("ended without a signal")
			}
			send(t, c.first)
			select {
			case <-ctx.Done():
			case <-time.After(time.Minute):
				t.Fatal("the signal did not end the context")
			}
			if !errors.Is(context.Cause(ctx), ErrStopped) {
				t.Errorf("cause %v", context.Cause(ctx))
			}
			send(t, c.second)
			select {
			case code := <-exited:
				if code != c.code {
					t.Errorf("exit status %d, want %d", code, c.code)
				}
			case <-time.After(time.Minute):
				t.Fatal("the second signal did not end the process")
			}
		})
	}
}

func send(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(os.Getpid(), s); err != nil {
		t.Fatal(err)
	}
}

func TestStopEndsContext(t *testing.T) {
	ctx, stop := Context(t.Context())
	stop()
	if ctx.Err() == nil || errors.Is(context.Cause(ctx), ErrStopped) {
		t.Errorf("cause %v", context.Cause(ctx))
	}
}

func TestParentEndsContext(t *testing.T) {
	parent, cancel := context.WithCancel(t.Context())
	ctx, stop := Context(parent)
	defer stop()
	cancel()
	<-ctx.Done()
}
