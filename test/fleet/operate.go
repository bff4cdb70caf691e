package fleet

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/compose-spec/compose-go/v2/types"
	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/libs/fault"
)

// vacant reports what has an address that a part will listen on: without asking, a
// connection to somebody else would pass for a part that has started.
func (f *Fleet) vacant() error {
	for _, part := range f.parts {
		if f.running(part.Name) {
			continue
		}
		for _, port := range part.Expose {
			at := net.JoinHostPort(f.place.address(part), port)
			l, err := net.Listen("tcp", at)
			if err == nil {
				_ = l.Close()
				continue
			}
			i := slices.IndexFunc(f.others(), func(o types.ServiceConfig) bool { return host(o) == host(part) && f.running(o.Name) })
			if i >= 0 {
				return fmt.Errorf("%s runs where %s would; nothing was started: \"scripts/fleet down\" first, then the other profile", f.others()[i].Name, part.Name)
			}
			return fmt.Errorf("%s cannot listen on %s: %w; nothing was started: end what is there, such as a fleet of another checkout or --dir", part.Name, at, err)
		}
	}
	return nil
}

// others are the parts that are not in this profile.
func (f *Fleet) others() (all []types.ServiceConfig) {
	for _, part := range f.project.AllServices() {
		if _, err := f.part(part.Name); err != nil {
			all = append(all, part)
		}
	}
	slices.SortFunc(all, func(a, b types.ServiceConfig) int { return strings.Compare(b.Name, a.Name) })
	return all
}

// Started is the profile that a fleet in a directory was started with last; empty for none.
func Started(dir string) string {
	raw, _ := os.ReadFile(filepath.Join(dir, "profile"))
	return string(raw)
}

func (f *Fleet) remember() error {
	if err := os.MkdirAll(f.place.dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(f.place.dir, "profile"), []byte(f.profile), 0o644)
}

// Clients is where clients connect: at the proxy, or at an edge without one.
func (f *Fleet) Clients() string {
	for _, name := range []string{"proxy", "edge-1"} {
		if f.running(name) {
			return "http://" + f.At(name, "8000")
		}
	}
	return ""
}

// Interrupted says what goes on after a signal has ended a command: how many parts.
type Interrupted int

// Interrupted is the error of a command that was told to stop.
func (f *Fleet) Interrupted() error {
	var n Interrupted
	for _, part := range f.parts {
		if f.running(part.Name) {
			n++
		}
	}
	return n
}

func (n Interrupted) Error() string {
	if n == 0 {
		return "interrupted; no part runs"
	}
	return fmt.Sprintf("interrupted; the parts that run go on (%d): \"scripts/fleet up\" starts the rest, \"scripts/fleet down\" ends them", int(n))
}

// ExitCode is the status that shells give for Ctrl-C.
func (Interrupted) ExitCode() int { return 130 }

// Run becomes a command with the settings of a part, at this terminal and in this
// directory. It returns only if that fails.
func (f *Fleet) Run(name string, args []string) error {
	part, there := f.project.AllServices()[name]
	if !there || isDatabase(part) || !once(part) && len(args) == 0 {
		return fmt.Errorf("%q is not a part that runs commands: \"operator\" is, and edges with a command", name)
	}
	if len(args) > 0 {
		part.Command = args
	}
	command, _ := program(part)
	path := f.Program(command)
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("there is no fleet in %s: \"scripts/fleet up\" first", f.place.dir)
	}
	if err := f.place.mount(part); err != nil {
		return err
	}
	argv := []string{path}
	for _, a := range part.Command {
		argv = append(argv, f.place.here(part, a))
	}
	return fmt.Errorf("run %s: %w", path, syscall.Exec(path, argv, f.environment(part)))
}

// Status says what runs, and where.
func (f *Fleet) Status() error {
	table := tabwriter.NewWriter(f.out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "PART\tSTATE\tADDRESS")
	for _, part := range f.parts {
		var at []string
		for _, port := range part.Expose {
			at = append(at, net.JoinHostPort(f.place.address(part), port))
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\n", part.Name, f.state(part), strings.Join(at, " "))
	}
	for _, part := range f.others() {
		if f.running(part.Name) {
			_, _ = fmt.Fprintf(table, "%s\trunning, of another profile\t%s\n", part.Name, f.place.address(part))
		}
	}
	return table.Flush()
}

// state is the state of a part, in words.
func (f *Fleet) state(part types.ServiceConfig) string {
	_, err := os.Stat(f.file(part.Name, "pid"))
	switch {
	case once(part):
		return "runs once"
	case f.running(part.Name):
		return "running"
	case err == nil:
		return "ended; see " + f.Log(part.Name)
	}
	if _, err := f.installed(part); err != nil {
		return "its program is not on this machine"
	}
	return "not running"
}

// lastWords is the last output of a part, without the rest of a line of JSON.
func (f *Fleet) lastWords(name string) string {
	raw, _ := os.ReadFile(f.Log(name))
	lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
	last := lines[len(lines)-1]
	var said struct {
		Msg string `json:"msg"`
	}
	if json.Unmarshal([]byte(last), &said) == nil && said.Msg != "" {
		last = said.Msg
	}
	return fault.Clip(last)
}

// installed is the program of a part that is neither built nor a database.
func (f *Fleet) installed(part types.ServiceConfig) (string, error) {
	name, source := program(part)
	if source != "" || isDatabase(part) {
		return "", nil
	}
	if name != "prometheus" && name != "haproxy" {
		return "", fmt.Errorf("%w: %s shows what a container would", errNotHere, name)
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%w: install %s", errNotHere, name)
	}
	return path, nil
}

// Signal sends a part and its children a signal; one that is killed is gone afterwards.
func (f *Fleet) Signal(name string, signal syscall.Signal) error {
	if _, err := f.part(name); err != nil {
		return err
	}
	pid := f.PID(name)
	if pid == 0 {
		return fmt.Errorf("%s does not run", name)
	}
	if err := syscall.Kill(-pid, signal); err != nil {
		return fmt.Errorf("signal %s: %w", name, err)
	}
	if signal == syscall.SIGKILL {
		return f.gone(name)
	}
	return nil
}

// Stop has a part end in its own way, and waits until it has.
func (f *Fleet) Stop(name string) error {
	part, err := f.part(name)
	if err != nil {
		return err
	}
	return f.stop(part)
}

func (f *Fleet) stop(part types.ServiceConfig) error {
	if pid := f.PID(part.Name); pid != 0 {
		_ = syscall.Kill(-pid, syscall.SIGCONT)
		if err := syscall.Kill(pid, endSignal(part)); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("%s: %w", part.Name, err)
		}
	}
	return f.gone(part.Name)
}

// Down stops everything, what others need last, and parts of the other profile as well.
func (f *Fleet) Down(volumes bool) (err error) {
	all := slices.Clone(f.parts)
	slices.Reverse(all)
	for _, part := range append(all, f.others()...) {
		if f.stop(part) == nil {
			continue
		}
		fmt.Fprintf(f.out, "%s does not end; killing it\n", part.Name)
		if pid := f.PID(part.Name); pid != 0 {
			_ = syscall.Kill(-pid, syscall.SIGKILL)
		}
		err = errors.Join(err, f.gone(part.Name))
	}
	if err == nil && volumes {
		err = os.RemoveAll(f.place.dir)
	}
	return err
}

// gone waits until a part has ended. Of a PostgreSQL that was killed its children end a
// moment later, and until then it does not start: "shared memory block is still in use".
func (f *Fleet) gone(name string) error {
	for deadline := time.Now().Add(stopTime); f.PID(name) != 0 || f.orphans(name); time.Sleep(askEvery) {
		if time.Now().After(deadline) {
			return fmt.Errorf("%s has not ended", name)
		}
	}
	if err := os.Remove(f.file(name, "pid")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
