package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/google/pprof/profile"
)

// profile builds a program with a listener for its profiles, which shipped programs lack, and
// starts it in place of the shipped one until ship is called.
func (b *bench) profile(ctx context.Context, program string) error {
	dir, work := filepath.Join(b.root, "services", program, "cmd", program), filepath.Join(b.root, "go.work")
	if program == "peers" {
		dir, work = filepath.Join(b.root, "test", "bench", "peers"), "off"
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {
		filepath.Join(dir, "profiled.go"): filepath.Join(b.root, "test", "bench", "profiled", "profiled.go"),
	}})
	if err != nil {
		return err
	}
	list, err := b.file("overlay.json", overlay)
	if err != nil {
		return err
	}
	out := filepath.Join(b.programs.dir, "profiled", program)
	c := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-trimpath", "-ldflags=-w", "-tags", "profiled", "-overlay", list, "-o", out, ".")
	c.Dir, c.Env = dir, append(os.Environ(), "GOWORK="+work, "GOFLAGS=", "CGO_ENABLED=0")
	if text, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", out, err, text)
	}
	b.programs.instead[program] = out
	return nil
}

// ship makes programs start as they are shipped again.
func (b *bench) ship() {
	clear(b.programs.instead)
	b.environment = nil
}

// door is where the next program that is profiled opens one. It samples one allocation in
// so many bytes; 0 samples none.
func (b *bench) door(rate int) (socket string, err error) {
	dir, err := b.folder("door")
	socket = filepath.Join(dir, "socket")
	b.environment = []string{"BENCH_PROFILE=" + socket, fmt.Sprintf("BENCH_PROFILE_RATE=%d", rate)}
	return socket, err
}

// ask asks a profiled program.
func ask(ctx context.Context, socket, what string) (*profile.Profile, error) {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	c := http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://profiled/"+what, nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.Do(r)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("profile: %s: %s", resp.Status, data)
	}
	if len(data) == 0 {
		return nil, nil
	}
	return profile.ParseData(data)
}
