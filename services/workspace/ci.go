package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/workspace/internal/ci"
	"github.com/busbar-mcp/busbar/services/workspace/internal/file"
	"github.com/busbar-mcp/busbar/services/workspace/internal/isolation"
	"github.com/busbar-mcp/busbar/services/workspace/internal/report"
	"github.com/busbar-mcp/busbar/services/workspace/internal/root"
)

// CI says how the commands of workspaces run. In each field, zero means the default.
type CI struct {
	Isolation string   `name:"ci-isolation" env:"BUSBAR_CI_ISOLATION" default:"auto" placeholder:"WAY" help:"How commands are isolated: bubblewrap, namespaces or auto (default ${default}). With auto, the first of them that works. commands-may-do-all-this-service-may isolates nothing."`
	ReadOnly  []string `name:"ci-read-only" env:"BUSBAR_CI_READ_ONLY" placeholder:"DIR" help:"More directories that commands may read, such as toolchains and module caches (default: none). They can always read the workspace and the system's programs."`
	Environ   []string `name:"ci-env" env:"BUSBAR_CI_ENV" placeholder:"NAME=VALUE" help:"Variables of commands besides PATH, HOME, TMPDIR and LANG (default: none). NAME alone passes on this process's value."`
	//limit:workspace a command | it is stopped
	Time time.Duration `name:"ci-time" env:"BUSBAR_CI_TIME" default:"10m" placeholder:"TIME" help:"Time limit of a command (default ${default})."`
	//limit:workspace processor time of each process of a command | the process is stopped
	CPU time.Duration `name:"ci-cpu" env:"BUSBAR_CI_CPU" default:"10m" placeholder:"TIME" help:"Processor time limit of each process of a command (default ${default})."`
	//limit:workspace.bytes memory of a command, with its `/tmp` | it is stopped
	Memory int64 `name:"ci-memory" env:"BUSBAR_CI_MEMORY" default:"2147483648" placeholder:"BYTES" help:"Memory limit of a command, including its files in /tmp (default ${default})."`
	//limit:workspace.bytes each file of a command, its `/tmp`, and the growth of the disk while it runs | it is stopped
	Disk int64 `name:"ci-disk" env:"BUSBAR_CI_DISK" default:"1073741824" placeholder:"BYTES" help:"Limit in bytes of what a command writes (default ${default}). It holds for each file, for /tmp, and for the growth of the workspace's disk."`
	//limit:workspace processes and threads of a command | no more start
	Processes int `name:"ci-processes" env:"BUSBAR_CI_PROCESSES" default:"512" placeholder:"N" help:"Limit of processes and threads of a command (default ${default})."`
	//limit:workspace concurrent commands; one principal may have half | the tool fails
	Runs int `name:"ci-runs" env:"BUSBAR_CI_RUNS" default:"4" placeholder:"N" help:"Limit of concurrent commands (default ${default}). One principal may use half of them."`
}

// complete sets the defaults and checks the values.
func (c *CI) complete() error {
	def := func(v *int64, usual int64) { *v = orElse(*v, usual) }
	c.Isolation, c.Time, c.CPU = orElse(c.Isolation, string(isolation.Auto)), orElse(c.Time, 10*time.Minute), orElse(c.CPU, 10*time.Minute)
	def(&c.Memory, 2<<30)
	def(&c.Disk, 1<<30)
	c.Processes, c.Runs = orElse(c.Processes, 512), orElse(c.Runs, 4)
	if c.Time < time.Second || c.Time > 12*time.Hour || c.CPU < time.Second || c.Memory < 16<<20 || c.Disk < 1<<20 || c.Processes < 4 || c.Runs < 1 || c.Runs > 64 {
		return errors.New("a limit of commands is out of range; use a time from 1s to 12h, 1 to 64 runs, and at least 1s of CPU, 16 MiB of memory, 1 MiB of disk and 4 processes")
	}
	for _, dir := range c.ReadOnly {
		if err := isolation.CheckReadOnly(dir); err != nil {
			return err
		}
	}
	for _, e := range c.Environ {
		if name, _, _ := strings.Cut(e, "="); name == "" || strings.ContainsAny(e, "\x00\n") {
			return fmt.Errorf("%q is not a valid variable for commands; write NAME=VALUE or NAME", e)
		}
	}
	return isolation.Way(c.Isolation).Check()
}

func orElse[T comparable](v, usual T) T {
	var zero T
	if v == zero {
		return usual
	}
	return v
}

// env is the environment of commands.
func (c *CI) env() []string {
	all := []string{"CI=true"}
	// The directories of this process's PATH that commands see.
	var seen []string
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		for _, top := range append([]string{"/usr", "/bin", "/sbin"}, c.ReadOnly...) {
			if rel, err := filepath.Rel(top, dir); err == nil && filepath.IsLocal(rel) && !slices.Contains(seen, dir) {
				seen = append(seen, dir)
			}
		}
	}
	if len(seen) > 0 {
		all = append(all, "PATH="+strings.Join(seen, string(filepath.ListSeparator)))
	}
	for _, e := range c.Environ {
		if !strings.Contains(e, "=") {
			value, ok := os.LookupEnv(e)
			if !ok {
				continue
			}
			e += "=" + value
		}
		all = append(all, e)
	}
	return all
}

// runner runs the commands of workspaces.
type runner struct {
	*service.Service
	CI
	roots *root.Roots
	runs  *ci.Runs

	mu sync.Mutex
	// way is how commands are isolated, once it is known.
	way isolation.Way
}

// isolated returns how commands are isolated. A failure is not kept, because an operator may repair the
// machine: the next call tries again.
func (r *runner) isolated(ctx context.Context) (isolation.Way, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.way == "" {
		way, err := isolation.Find(ctx, isolation.Way(r.Isolation))
		if err != nil {
			return "", err
		}
		r.way = way
	}
	return r.way, nil
}

// RootIn names a root.
type RootIn struct {
	Root string `json:"root,omitzero" jsonschema:"name of a workspace root; may be omitted if there is only one"`
}

// whole returns the root with the given name. The call must reach all of it, because commands are not
// confined to a part.
func whole(v *root.View, name string) (*root.Root, error) {
	p, err := v.Find(name)
	switch {
	case err != nil:
		return nil, err
	case p.Path != ".":
		return nil, service.Errorf("%s is not a root; name a root, because commands run in all of it", p)
	case p.At != ".":
		return nil, service.Errorf("your client works in a part of root %s, but commands run in all of it; let the client share the whole root", p.Name)
	}
	return p.Root, nil
}

// ListCommandsOut is the result of ci_list.
type ListCommandsOut struct {
	Commands  []CommandOut `json:"commands"`
	Isolation string       `json:"isolation" jsonschema:"how commands are isolated: bubblewrap or namespaces; none if they are not isolated, refused if they cannot run"`
	Note      string       `json:"note,omitzero" jsonschema:"which commands cannot run, and why"`
}

// CommandOut is a command that may run.
type CommandOut struct {
	Root string `json:"root"`
	Name string `json:"name"`
	Run  string `json:"run" jsonschema:"the shell command; it runs in the root's top directory"`
}

func (r *runner) list(ctx context.Context, call *service.Call, v *root.View, in RootIn) (out ListCommandsOut, err error) {
	out.Commands = []CommandOut{}
	var places []*root.Root
	if in.Root != "" {
		one, err := whole(v, in.Root)
		if err != nil {
			return out, err
		}
		places = []*root.Root{one}
	} else {
		for _, p := range v.Places() {
			if p.At == "." {
				places = append(places, p.Root)
			}
		}
	}
	var notes []string
	for _, at := range places {
		commands, err := ci.Commands(at)
		if err != nil {
			notes = append(notes, err.Error())
		}
		for _, c := range commands {
			out.Commands = append(out.Commands, CommandOut{at.Name, c.Name, c.Line})
		}
	}
	way, err := r.isolated(ctx)
	switch {
	case err != nil:
		out.Isolation = "refused"
		notes = append(notes, refusal)
	case way == isolation.None:
		out.Isolation = "none"
	default:
		out.Isolation = string(way)
	}
	out.Note = strings.Join(notes, "; ")
	return out, nil
}

const refusal = "commands cannot run here, because they cannot be isolated from the machine; ask the operator to install bubblewrap, to allow user namespaces on a kernel with Landlock, " +
	"or to set BUSBAR_CI_ISOLATION=" + string(isolation.None)

// RunIn holds the arguments of ci_run.
type RunIn struct {
	RootIn
	Name string `json:"name" jsonschema:"name of a command from ci_list"`
}

// RunOut is the outcome of a run.
type RunOut struct {
	ID        string         `json:"id" jsonschema:"id for ci_result"`
	Root      string         `json:"root"`
	Name      string         `json:"name"`
	Run       string         `json:"run"`
	Status    string         `json:"status" jsonschema:"running, passed (exit status 0), failed or stopped"`
	Exit      *int           `json:"exit,omitzero" jsonschema:"exit status of the shell; absent if it was ended by a signal"`
	Signal    string         `json:"signal,omitzero" jsonschema:"signal that ended it"`
	Stopped   string         `json:"stopped,omitzero" jsonschema:"why it was stopped: time, memory, processes, disk or output (a limit), or cancelled"`
	Started   time.Time      `json:"started"`
	Seconds   float64        `json:"seconds" jsonschema:"duration"`
	CPU       float64        `json:"cpuSeconds,omitzero"`
	Isolation string         `json:"isolation"`
	Written   int64          `json:"written" jsonschema:"bytes of output"`
	Tail      string         `json:"tail" jsonschema:"the end of the output, up to 48 KiB; paths begin with /workspace and the root's name"`
	Report    *report.Report `json:"report,omitzero" jsonschema:"failed tests, if the output is of go test, pytest or jest, or JUnit XML"`
	Note      string         `json:"note,omitzero"`
}

func (r *runner) run(ctx context.Context, call *service.Call, v *root.View, in RunIn) (out RunOut, err error) {
	at, err := whole(v, in.Root)
	if err != nil {
		return out, err
	}
	commands, err := ci.Commands(at)
	if err != nil {
		return out, err
	}
	i := slices.IndexFunc(commands, func(c ci.Command) bool { return c.Name == in.Name })
	if i < 0 {
		return out, service.Errorf("root %s has no such command; use a name from ci_list", at.Name)
	}
	way, err := r.isolated(ctx)
	if err != nil {
		r.Logger().Warn("commands cannot be isolated", "error", err)
		return out, service.Errorf("nothing ran: %s", refusal)
	}
	// The client learns of any error above at once; from here on the call is a task.
	if err := call.AsTask(); err != nil {
		return out, err
	}
	guarded, err := ci.Guarded(ctx, at, r.roots.All())
	if err == nil {
		err = at.InPlace()
	}
	if err != nil {
		return out, err
	}
	run, err := r.runs.Begin(call.ID(), account(call), at.Name, commands[i])
	if err != nil {
		return out, err
	}
	var kept any
	defer func() { r.runs.End(run, kept) }()
	quiet := tell(call, run)
	result, err := isolation.Run(ctx, way, isolation.Command{
		Line: run.Command.Line, Dir: at.Dir(), Inside: inside + at.Name, Guarded: guarded, ReadOnly: r.ReadOnly, Env: r.env(),
		Limits: isolation.Limits{Time: r.Time, CPU: r.CPU, Memory: r.Memory, Processes: r.Processes, Disk: r.Disk},
	}, run)
	quiet()
	if err != nil {
		r.Logger().Error("a command did not run", "root", at.Name, "command", in.Name, "error", err)
		return out, service.Errorf("%s did not run, because it could not be isolated from the machine; the service's log has the reason", in.Name)
	}
	out = r.ended(at, run, result, string(way))
	kept = out
	return out, ctx.Err()
}

// inside is the directory in which commands see their root.
const inside = "/workspace/"

func account(call *service.Call) ci.Account {
	return ci.Account{Tenant: call.Tenant(), Principal: call.Principal()}
}

// told is the interval of progress notifications.
const told = 250 * time.Millisecond

// tell reports the output to the caller while the command writes it, until quiet is called.
func tell(call *service.Call, run *ci.Run) (quiet func()) {
	stop, stopped := make(chan struct{}), make(chan struct{})
	say := func() {
		text, missed, lines := run.News()
		if text == "" {
			return
		}
		data := map[string]any{"output": text}
		if missed > 0 {
			data["bytesLeftOut"] = missed
		}
		call.Log("info", "ci", data)
		call.Progress(time.Since(run.Started).Seconds(), 0, fmt.Sprintf("%s: line %d: %s", run.Command.Name, lines, lastLine(text)))
	}
	go func() {
		defer close(stopped)
		tick := time.NewTicker(told)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				say()
			case <-stop:
				say()
				return
			}
		}
	}()
	return func() { close(stop); <-stopped }
}

// lastLine returns the last line that is not empty, as plain text.
func lastLine(text string) string {
	text = strings.TrimSpace(text)
	if i := strings.LastIndexByte(text, '\n'); i >= 0 {
		text = strings.TrimSpace(text[i+1:])
	}
	if most := 120; len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// about describes a run that is still going on.
func about(run *ci.Run) RunOut {
	out := RunOut{ID: run.ID, Root: run.Root, Name: run.Command.Name, Run: run.Command.Line, Status: "running", Started: run.Started}
	out.Tail, out.Written = run.Tail()
	out.Seconds = time.Since(run.Started).Seconds()
	return out
}

// ended describes a run that is over.
func (r *runner) ended(at *root.Root, run *ci.Run, result isolation.Result, way string) RunOut {
	out := about(run)
	out.Isolation, out.Signal, out.Stopped, out.CPU = way, result.Signal, result.Stopped, result.CPU.Seconds()
	switch {
	case result.Stopped != "":
		out.Status = "stopped"
	case result.Exit == 0:
		out.Status, out.Exit = "passed", &result.Exit
	default:
		if out.Status = "failed"; result.Signal == "" {
			out.Exit = &result.Exit
		}
	}
	out.Report = run.Report()
	if run.Command.Report != "" {
		found, err := junit(at, run)
		if err != nil {
			out.Note = err.Error()
		} else {
			out.Report = found
		}
	}
	if out.Report != nil {
		for i, f := range out.Report.Failures {
			if rest, ok := strings.CutPrefix(f.File, inside); ok {
				out.Report.Failures[i].File = rest // the path that the file tools use
			}
		}
	}
	return out
}

// junit reads the report file of the command.
func junit(at *root.Root, run *ci.Run) (*report.Report, error) {
	p := root.Place{Root: at, FS: at.FS, Path: run.Command.Report, At: "."}
	c, err := file.Read(p)
	if err != nil {
		return nil, fmt.Errorf("the report is missing: %w", err)
	}
	// The clock of a file system may be a little behind.
	if c.Info.ModTime().Before(run.Started.Add(-2 * time.Second)) {
		return nil, fmt.Errorf("%s is older than the run", p)
	}
	return report.JUnit(c.Data)
}

// ResultIn holds the arguments of ci_result.
type ResultIn struct {
	ID string `json:"id" jsonschema:"id from ci_run"`
}

func (r *runner) result(_ context.Context, call *service.Call, _ *root.View, in ResultIn) (RunOut, error) {
	run, result, err := r.runs.Find(in.ID, account(call))
	if err != nil {
		return RunOut{}, err
	}
	if out, ok := result.(RunOut); ok {
		return out, nil
	}
	return about(run), nil
}

func (w *workspace) addCI(settings CI) error {
	if err := settings.complete(); err != nil {
		return err
	}
	r := &runner{Service: w.Service, CI: settings, roots: w.roots, runs: ci.NewRuns(settings.Runs)}
	addCall(w, reader("ci_list", "List commands", "Lists the commands (tests, builds, checks) of a workspace root, from its file .busbar/workspace.yaml. ci_run runs one."), r.list)
	run := writer("ci_run", "Run command", "Runs a command from ci_list, isolated from the machine: without network, with write access to the workspace root only, and with limits of time, memory and processes. "+
		"No other command can run. Returns the exit status, the end of the output, and the failed tests. The command cannot change .git and .busbar.", true)
	run.Task, run.Timeout = service.TaskOnDemand, settings.Time+time.Minute
	addCall(w, run, r.run)
	addCall(w, reader("ci_result", "Show run", "Shows one of your own runs of ci_run, still running or finished. The last ten are kept for a day."), r.result)
	return nil
}
