package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/alecthomas/kong"

	"github.com/busbar-mcp/busbar/libs/tracing"
)

// version is set when a release is built: -ldflags
// "-X github.com/busbar-mcp/busbar/libs/lifecycle.version=1.2.3".
var version = unreleased

// unreleased is what a program says that is of no release.
const unreleased = "0.1.0-dev"

// commit is set with it, and empty where nobody knows.
var commit string

// Version is the SemVer that the program was built as, or that "go install" took it from.
func Version() string { return found() }

var found = sync.OnceValue(func() string {
	info, _ := debug.ReadBuildInfo()
	return versionOf(version, info)
})

var (
	released = regexp.MustCompile(`^v(\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?)$`)
	// pseudo ends versions that Go makes of commits (go.dev/ref/mod#pseudo-versions).
	pseudo = regexp.MustCompile(`\d{14}-[0-9a-f]{12}$`)
)

func versionOf(linked string, info *debug.BuildInfo) string {
	if linked != unreleased || info == nil {
		return linked
	}
	if m := released.FindStringSubmatch(info.Main.Version); m != nil && !pseudo.MatchString(m[1]) {
		return m[1]
	}
	return linked
}

// printed is what --version says: a version of builds between releases has its commit.
func printed(version, commit string) string {
	if commit == "" || strings.Contains(version, "+") {
		return version
	}
	return version + " (commit " + commit + ")"
}

// Flags are what every program takes. Embed them in the struct that kong reads
// the command line into.
type Flags struct {
	LogLevel slog.Level       `default:"warn" env:"BUSBAR_LOG_LEVEL" placeholder:"LEVEL" help:"Least severe log level: debug, info, warn or error (default ${default})."`
	LogJSON  bool             `name:"log-json" env:"BUSBAR_LOG_JSON" help:"Write the log as JSON."`
	Version  kong.VersionFlag `help:"Print the version."`
}

// AfterApply sets the log up. It goes to standard error: standard output belongs
// to results, and to the protocol under stdio.
func (f *Flags) AfterApply() error {
	logsJSON.Store(f.LogJSON)
	slog.SetDefault(slog.New(tracing.Log(logHandler(os.Stderr, f.LogLevel, f.LogJSON, isTerminal(os.Stderr)))))
	return nil
}

// isTerminal reports whether a person reads what is written to f. It takes any character
// device for a terminal: on another one, such as /dev/null, nobody minds.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// logsJSON is whether the log of this process is JSON.
var logsJSON atomic.Bool

// Say writes a line for people to w: as a record where the log is JSON, because what
// collects logs reads standard output and standard error as one.
func Say(w io.Writer, level slog.Level, line string) {
	if !logsJSON.Load() {
		fmt.Fprintln(w, line)
		return
	}
	slog.New(logHandler(w, level, true, false)).Log(context.Background(), level, line)
}

// ExitCode is the error of a command that has printed everything itself: the
// program exits with this status.
type ExitCode int

// Error implements error.
func (c ExitCode) Error() string { return fmt.Sprintf("exit status %d", int(c)) }

// Main is the main function of a program: it reads the command line and the
// environment into grammar, a pointer to a struct with Flags, and calls the Run
// method of the command that was chosen, or of grammar itself. Run may take a
// context.Context, which ends at the first SIGINT or SIGTERM, and an io.Writer,
// which is standard output. The exit status is 2 for a wrong command line and 1
// for any other error, unless that is an ExitCode.
func Main(name, description string, grammar any, options ...kong.Option) {
	setHeap() // first: a small heap is collected again and again while it grows
	parser, err := Parser(name, description, grammar, options...)
	if err != nil {
		panic(err)
	}
	arguments := os.Args[1:]
	if len(arguments) == 0 && len(parser.Model.Children) > 0 && parser.Model.DefaultCmd == nil {
		arguments = []string{"--help"} // who types the name alone wants to know what there is
	}
	command, err := parser.Parse(arguments)
	if err == nil {
		err = unseen(command)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\nTry \"%[1]s --help\".\n", name, err)
		os.Exit(2)
	}
	ctx, stop := Context(context.Background())
	command.BindTo(ctx, (*context.Context)(nil))
	command.BindTo(os.Stdout, (*io.Writer)(nil))
	err = command.Run()
	var asked stopped
	early := errors.As(context.Cause(ctx), &asked) && (errors.Is(err, context.Canceled) || errors.Is(err, ErrStopped))
	stop()
	var code ExitCode
	switch {
	case err == nil:
	case early: // before it had begun: nothing is wrong
		Say(os.Stderr, slog.LevelInfo, name+": asked to stop before it had started")
		os.Exit(asked.code())
	case errors.As(err, &code):
		os.Exit(int(code))
	default:
		Say(os.Stderr, slog.LevelError, fmt.Sprintf("%s: %v", name, err))
		os.Exit(1)
	}
}

// Parser is what Main reads the command line with. Its error is a mistake in a tag of
// grammar.
func Parser(name, description string, grammar any, options ...kong.Option) (*kong.Kong, error) {
	return kong.New(grammar, append([]kong.Option{
		kong.Name(name), kong.Description(description), kong.Vars{"version": printed(Version(), commit)},
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}), Secrets(),
	}, options...)...)
}

// DataDir is where a program keeps its files unless it is told otherwise:
// BUSBAR_DATA_DIR, or $XDG_STATE_HOME/busbar/<name>, or
// ~/.local/state/busbar/<name>. The name is that of the service, whichever program
// runs it, or of a command that runs a whole system, so that one of these does
// not keep another from starting.
func DataDir(name string) (string, error) {
	if dir := os.Getenv("BUSBAR_DATA_DIR"); dir != "" {
		return dir, nil
	}
	state := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) { // which the specification has ignored, as one that is not set
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("no home directory to keep data in; name a directory with --data-dir or BUSBAR_DATA_DIR: %w", err)
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "busbar", name), nil
}
