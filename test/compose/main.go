// Command compose tries docker-compose.yml on a container engine, as its users start it: it
// builds the images, starts each profile, calls through the proxy, adds the services that are
// off by default, kills parts while clients write with idempotency keys, and looks whether what
// was acknowledged is there, once. It ends with everything taken down. "make compose" runs it
// by test/compose/run, on this machine's engine or on one that scripts/engine brings; there it
// has a project, images and ports of its own.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/busbar-mcp/busbar/test/caller"
)

const (
	// runTime bounds all of it, with the first build of the images on processors that others use too.
	runTime = time.Hour
	// waitTime bounds each wait for something that has to happen, far beyond a slow disk.
	waitTime = 3 * time.Minute
	askEvery = 200 * time.Millisecond
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, runTime)
	defer cancel()
	if err := run(ctx); err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("not done within %v, or interrupted: %w", runTime, err)
		}
		fmt.Fprintln(os.Stderr, "FAIL:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	p, err := newProject()
	if err != nil {
		return err
	}
	if err := p.down(); err != nil { // of a run that was killed
		return err
	}
	defer p.removeImages()
	if err := p.build(ctx); err != nil {
		return err
	}
	said("the images are built")
	for _, f := range []fleet{
		{profile: "small", edges: "http://edge-1:8000", kill: []string{"edge-1", "nats", "resource"}, more: true},
		{profile: "fleet", edges: "http://edge-1:8000,http://edge-2:8000", large: true, kill: []string{"edge-1", "nats-2", "resource"}},
	} {
		if err := p.try(ctx, f); err != nil {
			return fmt.Errorf("profile %s: %w", f.profile, err)
		}
	}
	return nil
}

// fleet says what is tried of a profile.
type fleet struct {
	profile string
	edges   string   // URLs of its edges
	large   bool     // the rest carries on while one part is away
	kill    []string // the parts that are killed, one after another
	more    bool     // with the services that are off by default
}

func (p *project) try(ctx context.Context, f fleet) (err error) {
	p.profiles, p.own = []string{f.profile}, "hello"
	defer func() {
		if err != nil {
			p.tell()
		}
		err = errors.Join(err, p.down())
	}()
	began := time.Now()
	if err := p.up(ctx); err != nil {
		return err
	}
	said("%s: every part is healthy after %.0f s", f.profile, time.Since(began).Seconds())
	if err := p.well(ctx, f); err != nil {
		return err
	}
	if err := p.known(ctx); err != nil {
		return err
	}
	if f.more {
		if err := p.more(ctx, f); err != nil {
			return err
		}
	}
	if err := p.kill(ctx, f); err != nil {
		return err
	}
	if err := p.well(ctx, f); err != nil {
		return err
	}
	out, err := p.me(ctx, "audit", "verify")
	if err == nil && strings.Contains(out, "empty") {
		err = fmt.Errorf("audit verify does not see the call of \"me\": %s", out)
	}
	if err == nil {
		said("%s: audit verify: %s", f.profile, strings.TrimSpace(out))
	}
	return err
}

// well waits until doctor finds nothing wrong.
func (p *project) well(ctx context.Context, f fleet) error {
	err := eventually(ctx, "doctor finds nothing wrong", func() error {
		_, err := p.operator(ctx, "doctor", "--url", f.edges)
		return err
	})
	if err == nil {
		said("%s: doctor finds nothing wrong", f.profile)
	}
	return err
}

// known makes an API key and calls with it, with an effect, so that its tenant has a trail.
func (p *project) known(ctx context.Context) error {
	out, err := p.operator(ctx, "key", "create", "compose", "--principal", "me")
	if err != nil {
		return err
	}
	lines := strings.Fields(out)
	p.key = lines[len(lines)-1]
	out, err = p.me(ctx, "access", "who")
	if err == nil && !strings.Contains(out, "me") {
		err = fmt.Errorf("the caller with the key of \"me\" is %s", out)
	}
	if err != nil {
		return err
	}
	_, err = p.me(ctx, "call", "create_resource", `{"uri":"compose:me","mimeType":"text/plain","text":"mine"}`)
	return err
}

// more turns on the services that are off by default while the fleet runs.
func (p *project) more(ctx context.Context, f fleet) error {
	if a := caller.REST(ctx, p.clients, caller.Call{Tool: "greet", Arguments: `{"name":"compose"}`}); a.Reason != "unknown_tool" {
		return fmt.Errorf("a service that is off answers: %v", a)
	}
	p.profiles = append(p.profiles, "workspace", "model", "hello")
	if err := p.up(ctx); err != nil {
		return err
	}
	for _, c := range []caller.Call{
		{Tool: "greet", Arguments: `{"name":"compose"}`},
		{Tool: "filesystem_list", Arguments: `{"path":"main"}`},
	} {
		if err := eventually(ctx, c.Tool+" answers", func() error { return failed(caller.REST(ctx, p.clients, c)) }); err != nil {
			return err
		}
	}
	err := eventually(ctx, "the model service is on the bus", func() error {
		out, err := p.operator(ctx, "services")
		if err == nil && !strings.Contains(out, "model") {
			err = errors.New(out)
		}
		return err
	})
	if err != nil {
		return err
	}
	said("%s: workspace, model and an own service joined", f.profile)
	return p.well(ctx, f)
}

// eventually repeats a step until it succeeds.
func eventually(ctx context.Context, what string, step func() error) error {
	ctx, cancel := context.WithTimeout(ctx, waitTime)
	defer cancel()
	for {
		err := step()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: not so within %v: %w", what, waitTime, err)
		case <-time.After(askEvery):
		}
	}
}

// failed is the error of an answer without a result.
func failed(a caller.Answer) error {
	if a.OK {
		return nil
	}
	return errors.New(a.String())
}

func said(format string, args ...any) { fmt.Printf("ok: "+format+"\n", args...) }
