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

// unreleased is the version of a program that was not built as a release.
const unreleased = "0.1.0-dev"

// commit is set together with version; it is empty if unknown.
var commit string

// Version returns the program's SemVer, from the build or from "go install".
func Version() string { return found() }

var found = sync.OnceValue(func() string {
	info, _ := debug.ReadBuildInfo()
	return versionOf(version, info)
})

var (
	released = regexp.MustCompile(`^v(\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?)$`)
	// pseudo matches the end of versions that Go makes from commits (go.dev/ref/mod#pseudo-versions).
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

// printed returns the output of --version. A build between releases includes its commit.
func printed(version, commit string) string {
	if commit == "" || strings.Contains(version, "+") {
		return version
	}
	return version + " (commit " + commit + ")"
}

// Flags are the flags of every program. Embed them in the struct that kong reads the command
// line into.
type Flags struct {
	LogLevel slog.Level       `default:"warn" env:"BUSBAR_LOG_LEVEL" placeholder:"LEVEL" help:"Least severe log level: debug, info, warn or error (default ${default})."`
	LogJSON  bool             `name:"log-json" env:"BUSBAR_LOG_JSON" help:"Write the log as JSON."`
	Version  kong.VersionFlag `help:"Print the version."`
}

// AfterApply sets up the log. It goes to standard error, because standard output is for
// results, and for the protocol with stdio.
func (f *Flags) AfterApply() error {
	logsJSON.Store(f.LogJSON)
	slog.SetDefault(slog.New(tracing.Log(logHandler(os.Stderr, f.LogLevel, f.LogJSON, isTerminal(os.Stderr)))))
	return nil
}

// isTerminal reports whether f is a terminal. It accepts any character device: on others,
// such as /dev/null, it does not matter.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// logsJSON is set if the log of this process is JSON.
var logsJSON atomic.Bool

// Print writes a line for people to w. If the log is JSON it writes a record, because log
// collectors read standard output and standard error as one stream.
func Print(w io.Writer, level slog.Level, line string) {
	if !logsJSON.Load() {
		fmt.Fprintln(w, line)
		return
	}
	slog.New(logHandler(w, level, true, false)).Log(context.Background(), level, line)
}

// ExitCode is the error of a command that has printed everything itself. The program exits
// with this status.
type ExitCode int

// Error implements error.
func (c ExitCode) Error() string { return fmt.Sprintf("exit status %d", int(c)) }

// Main is the main function of a program: it reads the command line and the
// environment into grammar, a pointer to a struct with Flags, and calls the Run
// method of the chosen command, or of grammar itself. Run may take a
// context.Context, which ends at the first SIGINT or SIGTERM, and an io.Writer,
// which is standard output. The exit status is 2 for a wrong command line and 1
// for any other error, unless that is an ExitCode.
func Main(name, description string, grammar any, options ...kong.Option) {
	setHeap() // first, because a small heap is collected often while it grows
	parser, err := Parser(name, description, grammar, options...)
	if err != nil {
		panic(err)
	}
	arguments := os.Args[1:]
	if len(arguments) == 0 && len(parser.Model.Children) > 0 && parser.Model.DefaultCmd == nil {
		arguments = []string{"--help"} // without arguments, show the help
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
	case early: // stopped before it began; that is not an error
		Print(os.Stderr, slog.LevelInfo, name+": stopped before it had started")
		os.Exit(asked.code())
	case errors.As(err, &code):
		os.Exit(int(code))
	default:
		Print(os.Stderr, slog.LevelError, fmt.Sprintf("%s: %v", name, err))
		os.Exit(1)
	}
}

// Parser returns the command-line parser that Main uses. An error is a mistake in a tag of
// grammar.
func Parser(name, description string, grammar any, options ...kong.Option) (*kong.Kong, error) {
	return kong.New(grammar, append([]kong.Option{
		kong.Name(name), kong.Description(description), kong.Vars{"version": printed(Version(), commit)},
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}), Secrets(),
	}, options...)...)
}

// DataDir returns the default directory for a program's files: BUSBAR_DATA_DIR, or
// $XDG_STATE_HOME/busbar/<name>, or ~/.local/state/busbar/<name>. name is the name of the service,
// whichever program runs it, or of a command that runs a whole system, so that these do not keep
// each other from starting.
func DataDir(name string) (string, error) {
	if dir := os.Getenv("BUSBAR_DATA_DIR"); dir != "" {
		return dir, nil
	}
	state := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) { // the specification says to ignore it, as if it were not set
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("there is no home directory for data; set a directory with --data-dir or BUSBAR_DATA_DIR: %w", err)
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "busbar", name), nil
}
