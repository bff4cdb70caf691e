package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/libs/bus/permission"
	"github.com/busbar-mcp/busbar/test/caller"
)

var servers = []string{"nats-1", "nats-2", "nats-3"}

// stream is the state of a stream by a NATS server.
type stream struct {
	Name    string `json:"name"`
	Cluster struct {
		Leader string `json:"leader"`
	} `json:"cluster"`
	State struct {
		Messages uint64  `json:"messages"`
		Bytes    float64 `json:"bytes"`
	} `json:"state"`
	Config struct {
		Retention string  `json:"retention"`
		MaxBytes  float64 `json:"max_bytes"`
		MaxAge    int64   `json:"max_age"` // nanoseconds
	} `json:"config"`
}

// ask asks a NATS server for how it does.
func (w *world) ask(ctx context.Context, server, path string, into any) error {
	resp, err := caller.Ask(ctx, w.fleet.At(server, "8222"), path, into)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s says %s", server, resp.Status)
	}
	return err
}

// streamsAt returns the streams that a server has.
func (w *world) streamsAt(ctx context.Context, server string) (all []stream, err error) {
	var said struct {
		Accounts []struct {
			Streams []stream `json:"stream_detail"`
		} `json:"account_details"`
	}
	err = w.ask(ctx, server, "/jsz?accounts=1&streams=1&config=1", &said)
	for _, a := range said.Accounts {
		all = append(all, a.Streams...)
	}
	return all, err
}

// stream returns a stream as its leader has it, by its own name or a bucket's.
func (w *world) stream(ctx context.Context, name string) (s stream, leader string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	for {
		for _, server := range servers {
			all, _ := w.streamsAt(ctx, server)
			for _, s := range all {
				// A server has the name of its host, which is an address here.
				if (s.Name == name || s.Name == "KV_"+name) && strings.HasPrefix(w.fleet.At(server, ""), s.Cluster.Leader+":") {
					return s, server, nil
				}
			}
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return stream{}, "", fmt.Errorf("no NATS server leads %s: %w", name, err)
		}
	}
}

// check is "busbar bus check": every store is where it has to be.
func (w *world) check(ctx context.Context) error {
	_, err := w.busbar(ctx, append([]string{"bus", "check"}, w.onBus()...)...)
	return err
}

// onBus returns the flags of a command that looks at the bus.
func (w *world) onBus() []string {
	urls, user := w.bus()
	return []string{"--nats", urls, "--nats-ca", filepath.Join(user, "ca.pem"), "--nats-nkey", filepath.Join(user, permission.Operator+".secret")}
}

// bus is where its servers are, and the directory of the operator's secrets.
func (w *world) bus() (urls, operator string) {
	var all []string
	for _, server := range servers {
		all = append(all, "tls://"+w.fleet.At(server, "4222"))
	}
	return strings.Join(all, ","), filepath.Join(w.fleet.Volume("bus"), permission.Operator)
}

// wrong returns the problems that "busbar doctor" finds, with its advice.
func (w *world) wrong(ctx context.Context) (said []string, err error) {
	out, err := w.busbar(ctx, append([]string{"doctor", "--json", "--wait", "3s"}, w.onBus()...)...)
	var all struct {
		Findings []struct {
			Check string `json:"check"`
			State string `json:"state"`
			What  string `json:"what"`
			Mend  string `json:"mend"`
		} `json:"findings"`
	}
	if unread := json.Unmarshal(out, &all); unread != nil {
		return nil, errors.Join(err, unread)
	}
	for _, f := range all.Findings {
		if f.State == "wrong" {
			said = append(said, fmt.Sprintf("%s: %s (%s)", f.Check, f.What, f.Mend))
		}
	}
	return said, nil // that something is wrong is its exit status
}

// saysReady is in the line with which a service begins its work.
const saysReady = " is ready: "

// again stops a part and starts it. Then it waits, as an operator would before the next part, until
// a NATS server has caught up, or a service says that it is ready.
func (w *world) again(ctx context.Context, part string) error {
	said, err := os.ReadFile(w.fleet.Log(part))
	if err != nil {
		return err
	}
	before := strings.Count(string(said), saysReady)
	if err := w.fleet.Stop(part); err != nil {
		return err
	}
	if err := w.fleet.Start(ctx, part); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	ready := func() error { return nil }
	switch {
	case strings.HasPrefix(part, "nats"):
		ready = func() error {
			// The others count it among them before it has caught up.
			if err := w.ask(ctx, part, "/healthz", new(any)); err != nil {
				return err
			}
			return w.check(ctx)
		}
	case !strings.HasPrefix(part, "edge"):
		ready = func() error {
			said, err := os.ReadFile(w.fleet.Log(part))
			if err == nil && strings.Count(string(said), saysReady) <= before {
				err = fmt.Errorf("%s is not ready", part)
			}
			return err
		}
	}
	for {
		err := ready()
		if err == nil {
			return nil
		}
		if pause(ctx, 200*time.Millisecond) != nil {
			return err
		}
	}
}
