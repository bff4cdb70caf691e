// Command path prints in which files' hands one tools/call is, from the socket to the
// tool's handler, and which files it executes anything of. `make path` builds it with
// coverage of every package and runs it.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/coverage"
	"slices"
	"strings"
	"time"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/storage"
	"github.com/busbar-mcp/busbar/libs/natsd"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/edge"
)

const (
	prefix = "github.com/busbar-mcp/busbar/"
	// runs are the calls of which those functions count that all of them pass: a
	// heartbeat in one is not the way of a call.
	runs = 8
	// startTime is far beyond what a slow disk takes.
	startTime = 3 * time.Minute
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "path:", err)
		os.Exit(1)
	}
}

func run() error {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	dir, err := os.MkdirTemp("", "busbar-path-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	var held hands
	var looked error
	url, stop, err := start(dir, func() { held, looked = look() })
	if err != nil {
		return err
	}
	defer stop()
	for _, kind := range []struct {
		name string
		call func(url string) error
	}{{"modern tools/call", modern}, {"legacy tools/call", legacy()}} {
		passed, err := measure(kind.name, filepath.Join(dir, "cover"), func() error { return kind.call(url) })
		if err == nil && looked != nil {
			err = looked
		}
		way := append(held.edge, held.service...)
		report(kind.name, way, passed)
		if err == nil && kind.name == "modern tools/call" {
			err = documented(way, passed)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", kind.name, err)
		}
	}
	return nil
}

var (
	// wayLine names files of one package of docs/explanation/architecture.md, and a function in each.
	wayLine = regexp.MustCompile(`((?:libs|services)/\S+) +(\w+\.go \w+.*)`)
	wayStep = regexp.MustCompile(`(\w+\.go) (\w+)`)
)

// documented compares the way of a call that docs/explanation/architecture.md shows with the way of
// a real call; test/house checks the form of the page.
func documented(held []string, passed []string) error {
	page, err := os.ReadFile("docs/explanation/architecture.md")
	if err != nil {
		return err
	}
	_, way, _ := strings.Cut(string(page), "## The way of a call")
	parts := strings.SplitN(way, "\n```", 5)
	if len(parts) < 5 {
		return errors.New("docs/explanation/architecture.md does not show the way of a call in two lists")
	}
	var first []string
	for i, part := range []string{parts[1], parts[3]} {
		for _, line := range wayLine.FindAllStringSubmatch(part, -1) {
			for _, step := range wayStep.FindAllStringSubmatch(line[2], -1) {
				file := line[1] + "/" + step[1]
				of := regexp.MustCompile("^" + regexp.QuoteMeta(file) + `:\d+: (.*\.)?` + step[2] + "$")
				if !slices.ContainsFunc(passed, of.MatchString) {
					return fmt.Errorf("docs/explanation/architecture.md names %s in %s, which the call does not pass", step[2], file)
				}
				if i == 0 {
					first = append(first, file)
				}
			}
		}
	}
	if !slices.Equal(first, held) {
		return fmt.Errorf("docs/explanation/architecture.md says that these have the call in hand, one after the other: %v; they are %v", first, held)
	}
	if len(held) > maxHands {
		return fmt.Errorf("a call is in the hands of %d files; %d can be followed", len(held), maxHands)
	}
	return nil
}

// start runs NATS, a service with one tool, which looks, and an edge.
func start(dir string, look func()) (url string, stop func(), err error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTime)
	defer cancel()
	nats, err := natsd.Start(natsd.Config{DataDir: filepath.Join(dir, "nats"), Relaxed: true})
	if err != nil {
		return "", nil, err
	}
	connect := func(name string) (*bus.Conn, error) {
		return bus.Connect(ctx, bus.Config{URL: nats.URL(), Name: name})
	}
	conn, err := connect("edge")
	if err != nil {
		return "", nil, err
	}
	if _, err := storage.Ensure(ctx, conn, storage.Auto); err != nil {
		return "", nil, err
	}
	other, err := connect("echo")
	if err != nil {
		return "", nil, err
	}
	s := service.New("echo")
	service.AddTool(s, service.Tool{Name: "echo", ReadOnly: true}, func(_ context.Context, _ *service.Call, in struct {
		Text string `json:"text"`
	}) (struct {
		Text string `json:"text"`
	}, error) {
		look()
		return in, nil
	})
	if _, err := s.Start(ctx, other); err != nil {
		return "", nil, err
	}
	e, err := edge.New(ctx, conn, edge.Config{Version: "0.0.0"})
	if err != nil {
		return "", nil, err
	}
	if err := e.Await(ctx, "echo"); err != nil {
		return "", nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	serving, end := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Serve(serving, l) }()
	return "http://" + l.Addr().String() + "/mcp", func() {
		end()
		<-ended
		nats.Stop()
	}, nil
}

// maxHands is how many files a newcomer can be asked to follow a call through.
const maxHands = 25

// report prints the way of a call.
func report(name string, way, passed []string) {
	executed := map[string]int{}
	for _, f := range passed {
		file, _, _ := strings.Cut(f, ":")
		executed[file]++
	}
	fmt.Printf("%s: in the hands of %d files; executes %d functions of %d\n", name, len(way), len(passed), len(executed))
	for _, file := range way {
		fmt.Printf("   in hand  %s\n", file)
	}
	for _, file := range slices.Sorted(maps.Keys(executed)) {
		fmt.Printf("  %8d  %s\n", executed[file], file)
	}
}

// measure returns the functions that every one of some calls passes.
func measure(name, dir string, call func() error) ([]string, error) {
	for range 3 { // what is done once is not the way of a call
		if err := call(); err != nil {
			return nil, err
		}
	}
	var all []string
	for i := range runs {
		at := fmt.Sprintf("%s-%s-%d", dir, strings.ReplaceAll(name, "/", "-"), i)
		if err := os.MkdirAll(at, 0o700); err != nil {
			return nil, err
		}
		if err := coverage.ClearCounters(); err != nil {
			return nil, fmt.Errorf("not built with -cover -covermode=atomic; use make path: %w", err)
		}
		if err := call(); err != nil {
			return nil, err
		}
		if err := coverage.WriteMetaDir(at); err != nil {
			return nil, err
		}
		if err := coverage.WriteCountersDir(at); err != nil {
			return nil, err
		}
		passed, err := functions(at)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			all = passed
		}
		all = slices.DeleteFunc(all, func(f string) bool { return !slices.Contains(passed, f) })
	}
	return all, nil
}

// functions are those with a count, as file:line: name.
func functions(dir string) ([]string, error) {
	out, err := exec.Command("go", "tool", "covdata", "func", "-i="+dir).Output()
	if err != nil {
		return nil, fmt.Errorf("go tool covdata: %w", err)
	}
	var passed []string
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) < 3 || fields[len(fields)-1] == "0.0%" || !strings.HasPrefix(fields[0], prefix) {
			continue
		}
		at := strings.TrimPrefix(fields[0], prefix)
		if strings.HasPrefix(at, "gen/") || strings.HasPrefix(at, "test/") {
			continue
		}
		passed = append(passed, at+" "+fields[1])
	}
	return passed, nil
}

func post(url, body string, header map[string]string) (*http.Response, error) {
	r, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for name, value := range header {
		r.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= 300 || strings.Contains(string(got), `"error"`) {
		return nil, fmt.Errorf("%s: %s", resp.Status, bytes.TrimSpace(got))
	}
	return resp, nil
}

const params = `"name":"echo","arguments":{"text":"one bus"}`

func modern(url string) error {
	const version = "2026-07-28"
	_, err := post(url, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{`+params+`,"_meta":{"io.modelcontextprotocol/protocolVersion":"`+version+
		`","io.modelcontextprotocol/clientInfo":{"name":"path","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`,
		map[string]string{"MCP-Protocol-Version": version, "Mcp-Method": "tools/call", "Mcp-Name": "echo"})
	return err
}

// legacy calls within one session.
func legacy() func(url string) error {
	const version = "2025-11-25"
	var header map[string]string
	return func(url string) error {
		if header == nil {
			resp, err := post(url, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"`+version+
				`","clientInfo":{"name":"path","version":"1"},"capabilities":{}}}`, nil)
			if err != nil {
				return err
			}
			header = map[string]string{"Mcp-Session-Id": resp.Header.Get("Mcp-Session-Id"), "MCP-Protocol-Version": version}
			if _, err := post(url, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, header); err != nil {
				return err
			}
		}
		_, err := post(url, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{`+params+`}}`, header)
		return err
	}
}
