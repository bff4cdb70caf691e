// Package home is a data directory that several processes of one user share:
// one of them holds it and runs the NATS server in it, the others find that
// server through it, and take over when the holder ends.
package home

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/permission"
	"github.com/busbar-mcp/busbar/libs/bus/secret"
	"github.com/busbar-mcp/busbar/libs/natsd"
)

// Address is where the holder's NATS server is, as written in the directory.
type Address struct {
	// HostPort of the listener.
	HostPort string `json:"hostPort"`
	// PID and Command of the holder, for messages to people.
	PID     int    `json:"pid"`
	Command string `json:"command"`
	// Services are the ones that the holder runs; a program that joins waits for
	// them.
	Services []string `json:"services,omitempty"`
}

// Dir is a data directory.
type Dir string

func (d Dir) file() string { return filepath.Join(string(d), "bus.json") }

// Address reads where the holder is or last was.
func (d Dir) Address() (Address, error) {
	var a Address
	raw, err := os.ReadFile(d.file())
	if err != nil {
		return a, err
	}
	return a, json.Unmarshal(raw, &a)
}

// Hold takes the directory and runs a NATS server in it. When another process
// has it the error is natsd.ErrInUse. A port that is taken is replaced by a
// free one. services are those that this process is about to run; what others the
// directory's owner runs join as permission.Developer. Secrets has a secret for each of Users.
func (d Dir) Hold(listen, command string, services []permission.User, log *slog.Logger) (*natsd.Server, error) {
	last, _ := d.Address() // none yet is fine
	a := Address{PID: os.Getpid(), Command: command}
	for _, u := range services {
		a.Services = append(a.Services, u.Name)
	}
	users, err := permission.Issue(d.Users(), append(slices.Clip(services), permission.OfDeveloper()))
	if err != nil {
		return nil, fmt.Errorf("users of the bus: %w", err)
	}
	if listen == "" {
		// The same address as before: those who know it find the new server there.
		listen = last.HostPort
	}
	cfg := natsd.Config{Listen: listen, DataDir: string(d), Users: users, Logger: log}
	s, err := natsd.Start(cfg)
	if errors.Is(err, syscall.EADDRINUSE) {
		log.Warn("NATS port is taken; using a free one", "taken", listen)
		host, _, _ := net.SplitHostPort(listen)
		cfg.Listen = net.JoinHostPort(host, "0")
		s, err = natsd.Start(cfg)
	}
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(s.URL())
	if err == nil {
		a.HostPort = u.Host
		err = d.write(a)
	}
	if err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// write replaces the address as one step: others read it at any time.
func (d Dir) write(a Address) error {
	raw, err := json.Marshal(a)
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(string(d), "bus-*.json") // mode 0600
	if err != nil {
		return err
	}
	_, err = tmp.Write(raw)
	if err := errors.Join(err, tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), d.file())
}

// Users are the secrets of the programs on the bus.
func (d Dir) Users() secret.Dir { return secret.Dir(filepath.Join(string(d), "users")) }

// Connect joins the holder's bus as a user. The connection follows the server when
// another process takes the directory over at another address.
func (d Dir) Connect(ctx context.Context, user, name string, log *slog.Logger) (*bus.Conn, error) {
	var a Address
	for {
		var err error
		if a, err = d.Address(); err == nil && a.HostPort != "" {
			break
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return nil, fmt.Errorf("the process that holds %s does not say where its bus is: %w", d, err)
		}
	}
	u := url.URL{Scheme: "nats", Host: a.HostPort}
	s, err := d.Users().Read(user)
	if err != nil {
		return nil, fmt.Errorf("user %s of the bus in %s: %w", user, d, err)
	}
	return bus.Connect(ctx, bus.Config{URL: u.String(), User: user, Secret: s, Name: name, Logger: log, Dialer: dialer{d}})
}

// dialer asks the directory for the address at every attempt.
type dialer struct{ dir Dir }

// Dial implements nats.CustomDialer.
func (d dialer) Dial(network, address string) (net.Conn, error) {
	if a, err := d.dir.Address(); err == nil && a.HostPort != "" {
		address = a.HostPort
	}
	return net.DialTimeout(network, address, 2*time.Second)
}

// InUse explains natsd.ErrInUse to a person.
func (d Dir) InUse(err error) error {
	if !errors.Is(err, natsd.ErrInUse) {
		return err
	}
	if a, aerr := d.Address(); aerr == nil {
		return fmt.Errorf("data directory %s is in use by busbar %s (process %d); stop that one, or give another with --data-dir", d, a.Command, a.PID)
	}
	return fmt.Errorf("data directory %s is in use by another process; stop that one, or give another with --data-dir", d)
}
