package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/compose-spec/compose-go/v2/types"
)

const (
	// listenTime is how long a part may take until its ports are open, and stopTime
	// until it has ended.
	listenTime = time.Minute
	stopTime   = time.Minute
	// askEvery is how often is looked whether something has happened.
	askEvery = 50 * time.Millisecond
)

// fleet runs a topology.
type fleet struct {
	*topology
	place *place
	root  string
	out   io.Writer
}

func newFleet(t *topology, root, dir string, out io.Writer) *fleet {
	return &fleet{topology: t, place: newPlace(dir, t), root: root, out: out}
}

// up starts what does not run.
func (f *fleet) up(ctx context.Context) error {
	for _, part := range f.parts {
		if err := f.start(ctx, part); err != nil {
			return fmt.Errorf("%s: %w", part.Name, err)
		}
	}
	for _, part := range f.parts {
		if err := f.healthy(ctx, part); err != nil {
			return fmt.Errorf("%s: %w", part.Name, err)
		}
	}
	return f.status()
}

// healthy waits until a part that can say so says that it is well.
func (f *fleet) healthy(ctx context.Context, part types.ServiceConfig) error {
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
		out, err := exec.CommandContext(ctx, filepath.Join(f.place.dir, "bin", name), args...).CombinedOutput()
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

func (f *fleet) start(ctx context.Context, part types.ServiceConfig) error {
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
			return fmt.Errorf("%w; see %s", err, log.Name())
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

// errNotHere is of a part whose program is not on this machine.
var errNotHere = errors.New("its program is not on this machine")

// command is what a part runs here. What is built from this repository, or from a
// module, is built; the rest has to be installed.
func (f *fleet) command(ctx context.Context, part types.ServiceConfig) ([]string, error) {
	name, source := program(part)
	var args []string
	for _, a := range part.Command {
		args = append(args, f.place.here(part, a))
	}
	switch {
	case isDatabase(part):
		return f.databaseCommand(part)
	case source != "":
		path := filepath.Join(f.place.dir, "bin", name)
		build := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-trimpath", "-o", path, source)
		if build.Dir = f.root; !strings.HasPrefix(source, "./") {
			build.Dir = filepath.Join(f.root, "libs") // its module requires it
		}
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("build %s: %w\n%s", source, err, out)
		}
		return append([]string{path}, args...), nil
	case name == "haproxy":
		args = []string{"-f", filepath.Join(f.place.root(part.Name), "usr/local/etc/haproxy/haproxy.cfg")}
	default:
		return nil, fmt.Errorf("%w: %s shows what a container would", errNotHere, name)
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return nil, fmt.Errorf("%w: install %s", errNotHere, name)
	}
	return append([]string{path}, args...), nil
}

// environment is this machine's without any setting of Busbar, and the part's.
func (f *fleet) environment(part types.ServiceConfig) (env []string) {
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "BUSBAR_") && !strings.HasPrefix(v, "PG") {
			env = append(env, v)
		}
	}
	env = append(env, "BUSBAR_DATA_DIR="+filepath.Join(f.place.root(part.Name), "data"))
	for name, value := range part.Environment {
		if value != nil {
			env = append(env, name+"="+f.place.here(part, *value))
		}
	}
	return env
}

// listens waits until the ports of a part are open.
func (f *fleet) listens(ctx context.Context, part types.ServiceConfig, ended <-chan error) error {
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
				return fmt.Errorf("it ended: %v", err)
			case <-ctx.Done():
				return fmt.Errorf("it does not listen on %s: %w", at, err)
			case <-time.After(askEvery):
			}
		}
	}
	return nil
}

// status says what runs.
func (f *fleet) status() error {
	table := tabwriter.NewWriter(f.out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "PART\tSTATE\tADDRESS")
	for _, part := range f.parts {
		state := "not running"
		switch {
		case once(part):
			state = "runs once"
		case f.running(part.Name):
			state = "running"
		}
		var at []string
		for _, port := range part.Expose {
			at = append(at, net.JoinHostPort(f.place.address(part), port))
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\n", part.Name, state, strings.Join(at, " "))
	}
	return table.Flush()
}

func (f *fleet) kill(name string, signal syscall.Signal) error {
	if !slices.ContainsFunc(f.parts, func(p types.ServiceConfig) bool { return p.Name == name }) {
		return fmt.Errorf("there is no part %q; \"scripts/fleet status\" lists them", name)
	}
	pid := f.pid(name)
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

// down stops everything, what others need last.
func (f *fleet) down(volumes bool) (err error) {
	for _, part := range slices.Backward(f.parts) {
		pid := f.pid(part.Name)
		if pid == 0 {
			continue
		}
		_ = syscall.Kill(-pid, syscall.SIGCONT)
		if stop := syscall.Kill(pid, endSignal(part)); stop != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", part.Name, stop))
			continue
		}
		if f.gone(part.Name) != nil {
			fmt.Fprintf(f.out, "%s does not end; killing it\n", part.Name)
			_ = syscall.Kill(-pid, syscall.SIGKILL)
			err = errors.Join(err, f.gone(part.Name))
		}
	}
	if err == nil && volumes {
		err = os.RemoveAll(f.place.dir)
	}
	return err
}

// gone waits until a part has ended.
func (f *fleet) gone(name string) error {
	for deadline := time.Now().Add(stopTime); f.pid(name) != 0; time.Sleep(askEvery) {
		if time.Now().After(deadline) {
			return fmt.Errorf("%s has not ended", name)
		}
	}
	if err := os.Remove(f.file(name, "pid")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (f *fleet) file(name, kind string) string { return f.place.root(name) + "." + kind }

func (f *fleet) running(name string) bool { return f.pid(name) != 0 }

// pid is the process of a part that runs; 0 for none. Another process may have the
// number after a restart of the machine: it does not run in the part's directory.
func (f *fleet) pid(name string) int {
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
