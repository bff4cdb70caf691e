package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/test/caller"
)

const (
	// projectName names our containers, volumes, networks and images.
	projectName = "busbar-compose-test"
	version     = "0.1.0-test"
	// downTime bounds the end, which a signal does not cut short.
	downTime = 3 * time.Minute
)

// project is docker-compose.yml with settings of ours.
type project struct {
	profiles []string
	own      string   // BUSBAR_OWN_SERVICES
	ports    []string // the variables of ports, with free ones
	clients  string   // host and port of the proxy
	key      string   // an API key
}

func newProject() (*project, error) {
	p := &project{}
	for _, name := range []string{"BUSBAR_PORT", "BUSBAR_PROMETHEUS_PORT", "BUSBAR_GRAFANA_PORT", "BUSBAR_JAEGER_PORT"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer func() { _ = l.Close() }() // once all are different
		_, port, err := net.SplitHostPort(l.Addr().String())
		if err != nil {
			return nil, err
		}
		p.ports = append(p.ports, name+"="+port)
		if name == "BUSBAR_PORT" {
			p.clients = l.Addr().String()
		}
	}
	return p, nil
}

// environment is this machine's without settings of Busbar and Compose, and ours.
func (p *project) environment() []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "BUSBAR_") || strings.HasPrefix(v, "COMPOSE_") || strings.HasPrefix(v, "OTEL_")
	})
	env = append(env, p.ports...)
	return append(env, "COMPOSE_PROJECT_NAME="+projectName, "COMPOSE_FILE=docker-compose.yml", "COMPOSE_PROFILES="+strings.Join(p.profiles, ","),
		"BUSBAR_IMAGES="+projectName, "BUSBAR_VERSION="+version, "BUSBAR_OWN_SERVICES="+p.own,
		// The model is never asked: its service starts and joins the bus.
		"BUSBAR_MODEL_PROVIDER=openai", "BUSBAR_MODEL_NAME=none", "BUSBAR_MODEL_URL=http://127.0.0.1:9/v1", "BUSBAR_MODEL_API_KEY=none")
}

// docker runs a command of the engine and returns what it writes to standard output.
func (p *project) docker(ctx context.Context, args ...string) (string, error) {
	c := exec.CommandContext(ctx, "docker", args...)
	c.Env = p.environment()
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay = 30 * time.Second
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil {
		return "", fmt.Errorf("docker %s: %w\n%s%s", strings.Join(args, " "), err, tail(out.String()), tail(errs.String()))
	}
	return out.String(), nil
}

func (p *project) compose(ctx context.Context, args ...string) (string, error) {
	return p.docker(ctx, append([]string{"compose", "--progress", "plain"}, args...)...)
}

// operator runs a command of busbar in a container of its own.
func (p *project) operator(ctx context.Context, args ...string) (string, error) {
	return p.compose(ctx, append([]string{"run", "--rm", "-T", "operator"}, args...)...)
}

// me runs a command of busbar as the principal "me", through the port of clients.
func (p *project) me(ctx context.Context, args ...string) (string, error) {
	of := []string{"run", "--rm", "--network", "host", "-e", "BUSBAR_TOKEN=" + p.key, projectName + "/busbar:" + version}
	return p.docker(ctx, append(append(of, args...), "--url", "http://"+p.clients)...)
}

// build builds the images: first the one with nearly every package, so that the others, at
// once, find these compiled.
func (p *project) build(ctx context.Context) error {
	p.profiles = []string{"*"}
	if _, err := p.compose(ctx, "build", "bus"); err != nil {
		return err
	}
	_, err := p.compose(ctx, "build")
	return err
}

// up starts what does not run, and waits until every part is well and the proxy, which cannot
// say that it is, has an edge.
func (p *project) up(ctx context.Context) error {
	if _, err := p.compose(ctx, "up", "-d", "--no-build"); err != nil {
		return err
	}
	return eventually(ctx, "every part is healthy", func() error {
		all, err := p.parts(ctx)
		for _, one := range all {
			if !one.well() {
				err = errors.Join(err, fmt.Errorf("%s is %s %s, exit code %d", one.Service, one.State, one.Health, one.ExitCode))
			}
		}
		if err != nil {
			return err
		}
		resp, body, err := caller.Request(ctx, http.MethodGet, p.clients, "/readyz", "")
		if err == nil && resp.StatusCode != http.StatusOK {
			err = fmt.Errorf("the proxy answers %s: %s", resp.Status, body)
		}
		return err
	})
}

// part is a container as "docker compose ps" has it.
type part struct {
	Service, State, Health string
	ExitCode               int
}

// well reports whether a part runs and is healthy, if it says so, or has done its work.
func (c part) well() bool {
	return c.State == "running" && (c.Health == "" || c.Health == "healthy") || c.State == "exited" && c.ExitCode == 0 && c.Service == "bus"
}

func (p *project) parts(ctx context.Context) (all []part, err error) {
	out, err := p.compose(ctx, "ps", "-a", "--format", "json")
	if err != nil {
		return nil, err
	}
	d := jsontext.NewDecoder(strings.NewReader(out))
	for d.PeekKind() == '{' {
		var one part
		if err := json.UnmarshalDecode(d, &one); err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	if len(all) < 10 {
		err = fmt.Errorf("%d parts: %s", len(all), out)
	}
	return all, err
}

// tell prints what there is to know of a fleet that failed.
func (p *project) tell() {
	ctx, cancel := context.WithTimeout(context.Background(), downTime)
	defer cancel()
	for _, args := range [][]string{{"ps", "-a"}, {"logs", "--no-color", "--tail", "15"}} {
		out, err := p.compose(ctx, args...)
		fmt.Fprintln(os.Stderr, out)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
}

// down removes containers, volumes and networks of the project, and looks whether it did.
func (p *project) down() error {
	ctx, cancel := context.WithTimeout(context.Background(), downTime)
	defer cancel()
	p.profiles = []string{"*"}
	if _, err := p.compose(ctx, "down", "--volumes", "--remove-orphans"); err != nil {
		return err
	}
	kinds := map[string][]string{"container": {"ls", "-aq"}, "volume": {"ls", "-q"}, "network": {"ls", "-q"}}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		args := append([]string{kind}, kinds[kind]...)
		left, err := p.docker(ctx, append(args, "--filter", "label=com.docker.compose.project="+projectName)...)
		if err != nil {
			return err
		}
		if left != "" {
			return fmt.Errorf("docker compose down left a %s: %s", kind, left)
		}
	}
	return nil
}

// removeImages removes the images that were built; the engine's cache of builds stays.
func (p *project) removeImages() {
	ctx, cancel := context.WithTimeout(context.Background(), downTime)
	defer cancel()
	all, err := p.docker(ctx, "image", "ls", "-q", "--filter", "reference="+projectName+"/*")
	if ids := strings.Fields(all); err == nil && len(ids) > 0 {
		slices.Sort(ids)
		_, err = p.docker(ctx, append([]string{"image", "rm", "-f"}, slices.Compact(ids)...)...)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// tail is the end of a long text.
func tail(text string) string {
	const most = 4000
	return text[max(0, len(text)-most):]
}
