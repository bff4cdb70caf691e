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

// CI says how the commands of workspaces run. Zero is the default of each field.
type CI struct {
	Isolation string        `name:"ci-isolation" env:"BUSBAR_CI_ISOLATION" default:"auto" placeholder:"WAY" help:"How commands are kept apart: bubblewrap, namespaces, or auto, the first of them that works. commands-may-do-all-this-service-may keeps nothing apart (default ${default})."`
	ReadOnly  []string      `name:"ci-read-only" env:"BUSBAR_CI_READ_ONLY" placeholder:"DIR" help:"Directories that commands may read besides the workspace and the system's programs, such as toolchains and caches of modules. Default none."`
	Environ   []string      `name:"ci-env" env:"BUSBAR_CI_ENV" placeholder:"NAME=VALUE" help:"Variables of commands besides PATH, HOME, TMPDIR and LANG; NAME alone takes the value that this process has. Default none."`
	Time      time.Duration `name:"ci-time" env:"BUSBAR_CI_TIME" default:"10m" placeholder:"TIME" help:"Longest time of a command (default ${default})."`
	CPU       time.Duration `name:"ci-cpu" env:"BUSBAR_CI_CPU" default:"10m" placeholder:"TIME" help:"Most processor time of each process of a command (default ${default})."`
	Memory    int64         `name:"ci-memory" env:"BUSBAR_CI_MEMORY" default:"2147483648" placeholder:"BYTES" help:"Most memory of a command, what it writes to /tmp included (default ${default})."`
	Disk      int64         `name:"ci-disk" env:"BUSBAR_CI_DISK" default:"1073741824" placeholder:"BYTES" help:"Most bytes of a file, of /tmp, and by which the disk of the workspace fills while a command runs (default ${default})."`
	Processes int           `name:"ci-processes" env:"BUSBAR_CI_PROCESSES" default:"512" placeholder:"N" help:"Most processes and threads of a command (default ${default})."`
	Runs      int           `name:"ci-runs" env:"BUSBAR_CI_RUNS" default:"4" placeholder:"N" help:"Most commands at once; one principal has half of them (default ${default})."`
}

// complete puts defaults where nothing is said, and checks what is.
func (c *CI) complete() error {
	def := func(v *int64, usual int64) { *v = orElse(*v, usual) }
	c.Isolation, c.Time, c.CPU = orElse(c.Isolation, string(isolation.Auto)), orElse(c.Time, 10*time.Minute), orElse(c.CPU, 10*time.Minute)
	def(&c.Memory, 2<<30)
	def(&c.Disk, 1<<30)
	c.Processes, c.Runs = orElse(c.Processes, 512), orElse(c.Runs, 4)
	if c.Time < time.Second || c.Time > 12*time.Hour || c.CPU < time.Second || c.Memory < 16<<20 || c.Disk < 1<<20 || c.Processes < 4 || c.Runs < 1 || c.Runs > 64 {
		return errors.New("limits of commands: a time from 1s to 12h, 1s of CPU, 16 MiB of memory, 1 MiB of disk, 4 processes, 1 to 64 runs")
	}
	for _, dir := range c.ReadOnly {
		if err := isolation.CheckReadOnly(dir); err != nil {
			return err
		}
	}
	for _, e := range c.Environ {
		if name, _, _ := strings.Cut(e, "="); name == "" || strings.ContainsAny(e, "\x00\n") {
			return fmt.Errorf("%q is no NAME=VALUE for commands", e)
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
	// Of the places where this process looks for programs, those that commands see.
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
	// way is how commands are kept apart, once that is known.
	way isolation.Way
}

// isolated says how commands are kept apart. What does not work is tried again the next time: a
// machine may be mended.
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
	Root string `json:"root,omitzero" jsonschema:"name of a workspace root; the only one if omitted"`
}

// whole is a root that a call reaches all of: what its commands do is not held to a part.
func whole(v *root.View, name string) (*root.Root, error) {
	p, err := v.Find(name)
	switch {
	case err != nil:
		return nil, err
	case p.Path != ".":
		return nil, service.Errorf("%s is no root: commands run in a whole one", p)
	case p.At != ".":
		return nil, service.Errorf("your client works in a part of root %s, and commands run in all of it", p.Name)
	}
	return p.Root, nil
}

// ListCommandsOut is what ci_list returns.
type ListCommandsOut struct {
	Commands  []CommandOut `json:"commands"`
	Isolation string       `json:"isolation" jsonschema:"how commands are kept apart: bubblewrap or namespaces; none when nothing is, refused when they do not run"`
	Note      string       `json:"note,omitzero" jsonschema:"what does not run, and why"`
}

// CommandOut is a command that may run.
type CommandOut struct {
	Root string `json:"root"`
	Name string `json:"name"`
	Run  string `json:"run" jsonschema:"what it runs, in a shell, at the top of the root"`
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

const refusal = "commands do not run here, because nothing keeps them apart from the machine: its operator installs bubblewrap, or allows user namespaces on a kernel with Landlock, " +
	"or sets BUSBAR_CI_ISOLATION=" + string(isolation.None)

// RunIn is what ci_run takes.
type RunIn struct {
	RootIn
	Name string `json:"name" jsonschema:"one of ci_list"`
}

// RunOut is how a run ended.
type RunOut struct {
	ID        string         `json:"id" jsonschema:"for ci_result"`
	Root      string         `json:"root"`
	Name      string         `json:"name"`
	Run       string         `json:"run"`
	Status    string         `json:"status" jsonschema:"running, passed for exit status 0, failed, or stopped"`
	Exit      *int           `json:"exit,omitzero" jsonschema:"exit status of the shell; absent if it was ended by a signal"`
	Signal    string         `json:"signal,omitzero" jsonschema:"what ended it"`
	Stopped   string         `json:"stopped,omitzero" jsonschema:"why it was stopped: time, memory, processes, disk, output or cancelled"`
	Started   time.Time      `json:"started"`
	Seconds   float64        `json:"seconds" jsonschema:"duration"`
	CPU       float64        `json:"cpuSeconds,omitzero"`
	Isolation string         `json:"isolation"`
	Written   int64          `json:"written" jsonschema:"bytes of output"`
	Tail      string         `json:"tail" jsonschema:"the end of the output, up to 48 KiB; paths begin with /workspace and the root's name"`
	Report    *report.Report `json:"report,omitzero" jsonschema:"tests that failed, if go test, pytest, jest or JUnit's XML was understood"`
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
		return out, service.Errorf("%s names no such command: ci_list shows those there are", at.Name)
	}
	way, err := r.isolated(ctx)
	if err != nil {
		r.Logger().Warn("commands cannot be kept apart", "error", err)
		return out, service.Errorf("nothing ran: %s", refusal)
	}
	// What is wrong until here, the client hears at once.
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
	run, err := r.runs.Begin(call.ID(), payer(call), at.Name, commands[i])
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
		return out, service.Errorf("%s did not run: what keeps it apart from the machine could not be made; the service's log says more", in.Name)
	}
	out = r.ended(at, run, result, string(way))
	kept = out
	return out, ctx.Err()
}

// inside is where commands see their root.
const inside = "/workspace/"

func payer(call *service.Call) ci.Payer {
	return ci.Payer{Tenant: call.Tenant(), Principal: call.Principal()}
}

// told is how often the output is told of.
const told = 250 * time.Millisecond

// tell has the caller hear of the output while it is written, until quiet is called.
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

// lastLine is the last that has something in it, for people.
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

// about is what is known of a run while it is under way.
func about(run *ci.Run) RunOut {
	out := RunOut{ID: run.ID, Root: run.Root, Name: run.Command.Name, Run: run.Command.Line, Status: "running", Started: run.Started}
	out.Tail, out.Written = run.Tail()
	out.Seconds = time.Since(run.Started).Seconds()
	return out
}

// ended is how a run ended.
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
				out.Report.Failures[i].File = rest // as the tools of files name it
			}
		}
	}
	return out
}

// junit reads the file that a command was said to write.
func junit(at *root.Root, run *ci.Run) (*report.Report, error) {
	p := root.Place{Root: at, FS: at.FS, Path: run.Command.Report, At: "."}
	c, err := file.Read(p)
	if err != nil {
		return nil, fmt.Errorf("the report is missing: %w", err)
	}
	// The clock of a file system is a little behind.
	if c.Info.ModTime().Before(run.Started.Add(-2 * time.Second)) {
		return nil, fmt.Errorf("%s is older than the run", p)
	}
	return report.JUnit(c.Data)
}

// ResultIn is what ci_result takes.
type ResultIn struct {
	ID string `json:"id" jsonschema:"of ci_run"`
}

func (r *runner) result(_ context.Context, call *service.Call, _ *root.View, in ResultIn) (RunOut, error) {
	run, result, err := r.runs.Find(in.ID, payer(call))
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
	addCall(w, reader("ci_list", "List commands", "Lists the commands that a workspace root's own configuration, .busbar/workspace.yaml, names: tests, builds, checks. ci_run runs one."), r.list)
	run := writer("ci_run", "Run command", "Runs a command of ci_list, kept apart from the machine: without network, with the workspace root as the only files it may change, with limits of time, memory and processes. "+
		"Nothing else can be run. Returns exit status, the end of the output, and tests that failed. .git and .busbar are read-only for it.", true)
	run.Task, run.Timeout = service.TaskOnDemand, settings.Time+time.Minute
	addCall(w, run, r.run)
	addCall(w, reader("ci_result", "Show run", "Shows a run of ci_run, under way or over: only your own, the last ten for a day."), r.result)
	return nil
}
