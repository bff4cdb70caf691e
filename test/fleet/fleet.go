package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/compose-spec/compose-go/v2/types"
)

const (
	// listenTime is how long a part may take until its ports are open, and stopTime
	// until it has ended: far beyond a slow disk, on which PostgreSQL recovers and checkpoints.
	listenTime = 3 * time.Minute
	stopTime   = 3 * time.Minute
	// askEvery is how often is looked whether something has happened.
	askEvery = 50 * time.Millisecond
)

// Fleet runs a topology.
type Fleet struct {
	*topology
	place   *place
	profile string
	root    string
	out     io.Writer
	built   map[string]bool
	// instead has the programs of parts that run another program than this checkout builds.
	instead map[string]string
}

// Options say which fleet.
type Options struct {
	// Root is the checkout, Dir where data and logs are kept.
	Root, Dir string
	// Profile is one of docker-compose.yml's, or several, separated by commas.
	Profile string
	// Files are the compose files to read; if empty, those that Docker Compose would read in Root.
	Files []string
	// Without are parts that do not run.
	Without []string
	// Network is the first three numbers of the addresses; 127.0.7 where it is empty.
	Network string
	// Out is told what is started.
	Out io.Writer
}

// New reads the topology; nothing runs yet.
func New(ctx context.Context, o Options) (*Fleet, error) {
	t, err := load(ctx, o.Root, o.Profile, o.Files...)
	if err != nil {
		return nil, err
	}
	t.parts = slices.DeleteFunc(t.parts, func(p types.ServiceConfig) bool { return slices.Contains(o.Without, p.Name) })
	return &Fleet{topology: t, place: newPlace(o.Dir, cmp.Or(o.Network, "127.0.7"), t), profile: o.Profile, root: o.Root, out: o.Out, built: map[string]bool{}, instead: map[string]string{}}, nil
}

// Up starts the named parts, or all if none is named, and the parts that they need, except those
// that run. It waits until they can be used.
func (f *Fleet) Up(ctx context.Context, names ...string) error {
	for _, name := range names {
		if _, err := f.part(name); err != nil {
			return err
		}
	}
	if err := f.vacant(); err != nil {
		return err
	}
	if err := f.remember(); err != nil {
		return err
	}
	parts := f.needed(names)
	for _, part := range parts {
		if err := f.start(ctx, part); err != nil {
			return fmt.Errorf("%s: %w", part.Name, err)
		}
	}
	for _, part := range parts {
		if err := f.healthy(ctx, part); err != nil {
			return fmt.Errorf("%s: %w", part.Name, err)
		}
	}
	return nil
}

// Start starts one part, and waits until it can be used.
func (f *Fleet) Start(ctx context.Context, name string) error {
	part, err := f.part(name)
	if err == nil {
		err = f.start(ctx, part)
	}
	if err == nil {
		err = f.healthy(ctx, part)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// Use makes a part run another program from its next start on; the empty path is this checkout's
// program.
func (f *Fleet) Use(name, path string) { f.instead[name] = path }

// At is the address of a port of a part.
func (f *Fleet) At(name, port string) string {
	return net.JoinHostPort(f.place.hosts[name], port)
}

// Program is the path of a program that was built.
func (f *Fleet) Program(name string) string { return filepath.Join(f.place.dir, "bin", name) }

// Volume is the directory of a volume.
func (f *Fleet) Volume(name string) string { return filepath.Join(f.place.dir, "volumes", name) }

// Log is the file with the output of a part.
func (f *Fleet) Log(name string) string { return f.file(name, "log") }

func (f *Fleet) part(name string) (types.ServiceConfig, error) {
	i := slices.IndexFunc(f.parts, func(p types.ServiceConfig) bool { return p.Name == name })
	if i < 0 {
		return types.ServiceConfig{}, fmt.Errorf("there is no part %q; \"scripts/fleet status\" lists them", name)
	}
	return f.parts[i], nil
}

// healthy waits until a part that can say so says that it is well.
func (f *Fleet) healthy(ctx context.Context, part types.ServiceConfig) error {
	if part.HealthCheck == nil || len(part.HealthCheck.Test) < 2 || part.HealthCheck.Test[1] != "/program" || !f.running(part.Name) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, listenTime)
	defer cancel()
	name, _ := program(part)
	var args []string
	for _, a := range part.HealthCheck.Test[2:] {
		args = append(args, f.place.here(part, a))
	}
	for {
		out, err := exec.CommandContext(ctx, f.Program(name), args...).CombinedOutput()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("it is not ready: %s; see %s", out, f.file(part.Name, "log"))
		case <-time.After(askEvery):
		}
	}
}

func (f *Fleet) start(ctx context.Context, part types.ServiceConfig) error {
	if f.running(part.Name) {
		return nil
	}
	if err := f.place.mount(part); err != nil {
		return err
	}
	argv, err := f.command(ctx, part)
	if errors.Is(err, errNotHere) {
		fmt.Fprintf(f.out, "%s: not started, %v\n", part.Name, err)
		return nil
	}
	if err != nil {
		return err
	}
	c := exec.Command(argv[0], argv[1:]...)
	c.Dir, c.Env = f.place.root(part.Name), f.environment(part)
	// It goes on when this program ends, and has the children that it starts with it.
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if isDatabase(part) {
		if err := f.prepareDatabase(ctx, part, c); err != nil {
			return err
		}
	}
	log, err := os.OpenFile(f.file(part.Name, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	c.Stdout, c.Stderr = log, log
	fmt.Fprintf(f.out, "starting %s\n", part.Name)
	if err := c.Start(); err != nil {
		return err
	}
	if once(part) {
		if err := c.Wait(); err != nil {
			return fmt.Errorf("%w: %s; see %s", err, f.lastWords(part.Name), log.Name())
		}
		return nil
	}
	if err := os.WriteFile(f.file(part.Name, "pid"), []byte(strconv.Itoa(c.Process.Pid)), 0o644); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	if err := f.listens(ctx, part, ended); err != nil {
		return fmt.Errorf("%w; see %s", err, log.Name())
	}
	if isDatabase(part) {
		return f.createDatabase(ctx, part)
	}
	return nil
}

// errNotHere is the error of a part if its program is not on this machine.
var errNotHere = errors.New("its program is not on this machine")

// command returns the command that a part runs here. It builds programs of this repository and of
// modules; others must be installed.
func (f *Fleet) command(ctx context.Context, part types.ServiceConfig) ([]string, error) {
	name, source := program(part)
	var args []string
	for _, a := range part.Command {
		args = append(args, f.place.here(part, a))
	}
	switch {
	case isDatabase(part):
		return f.databaseCommand(part)
	case source != "":
		path := f.Program(name)
		if other := f.instead[part.Name]; other != "" {
			return append([]string{other}, args...), nil
		}
		if f.built[path] {
			return append([]string{path}, args...), nil
		}
		build := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-trimpath", "-o", path, source)
		if build.Dir = filepath.Join(f.root, "libs"); part.Build != nil { // the module of libs requires nats-server
			build.Dir = part.Build.Context
		}
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("build %s: %w\n%s", source, err, out)
		}
		f.built[path] = true
		return append([]string{path}, args...), nil
	case name == "haproxy":
		args = []string{"-f", filepath.Join(f.place.root(part.Name), "usr/local/etc/haproxy/haproxy.cfg")}
	}
	path, err := f.installed(part)
	if err != nil {
		return nil, err
	}
	return append([]string{path}, args...), nil
}

// environment is this machine's without any setting of Busbar, and the part's.
func (f *Fleet) environment(part types.ServiceConfig) (env []string) {
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "BUSBAR_") && !strings.HasPrefix(v, "PG") {
			env = append(env, v)
		}
	}
	env = append(env, "BUSBAR_DATA_DIR="+filepath.Join(f.place.root(part.Name), "data"))
	for name, value := range part.Environment {
		if value != nil {
			text := f.place.here(part, *value)
			if strings.HasPrefix(text, ":") { // all addresses of a container: the part's address
				text = f.place.address(part) + text
			}
			env = append(env, name+"="+text)
		}
	}
	return env
}

// listens waits until the ports of a part are open.
func (f *Fleet) listens(ctx context.Context, part types.ServiceConfig, ended <-chan error) error {
	ctx, cancel := context.WithTimeout(ctx, listenTime)
	defer cancel()
	for _, port := range part.Expose {
		at := net.JoinHostPort(f.place.address(part), port)
		for {
			conn, err := new(net.Dialer).DialContext(ctx, "tcp", at)
			if err == nil {
				_ = conn.Close()
				break
			}
			select {
			case err := <-ended:
				return fmt.Errorf("it ended with %v: %s", err, f.lastWords(part.Name))
			case <-ctx.Done():
				return fmt.Errorf("it does not listen on %s: %w", at, err)
			case <-time.After(askEvery):
			}
		}
	}
	return nil
}

func (f *Fleet) file(name, kind string) string { return f.place.root(name) + "." + kind }

func (f *Fleet) running(name string) bool { return f.PID(name) != 0 }

// PID is the process of a part that runs; 0 for none. Another process may have the
// number after a restart of the machine: it does not run in the part's directory.
func (f *Fleet) PID(name string) int {
	raw, err := os.ReadFile(f.file(name, "pid"))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(string(raw))
	if err != nil || pid <= 1 {
		return 0
	}
	at, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
	if err != nil || at != f.place.root(name) && !strings.HasPrefix(at, f.place.dir) {
		return 0
	}
	return pid
}
