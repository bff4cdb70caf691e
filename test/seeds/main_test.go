// Package seeds sends every request of the documents that Busbar was asked for in, as they are
// written there, to the program as it is shipped. docs/evidence/seeds.md says which requirement
// each test belongs to.
package seeds

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/examples/weather/noaatest"
	"github.com/busbar-mcp/busbar/libs/bustest/programs"
)

// world is shared by all tests: the program, its work, and on loopback the outside interfaces that
// it reads.
type world struct {
	dir, busbar string
	outside     []string // settings that point to them
	noaa        *noaatest.Server

	mu    sync.Mutex
	ended []func()
}

var the world

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "busbar-seeds-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	built, err := programs.Build("../..", "./services/busbar/cmd/busbar")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	the.dir, the.busbar = dir, built[0]
	the.noaa = noaatest.New()
	defer the.noaa.Close()
	github, model := httptest.NewServer(http.HandlerFunc(searched)), httptest.NewServer(http.HandlerFunc(sampled))
	defer github.Close()
	defer model.Close()
	// The workspace has the file that seed 004 reads, and a command.
	work := filepath.Join(dir, "work")
	if err = os.MkdirAll(filepath.Join(work, "path/to"), 0o700); err == nil {
		err = os.WriteFile(filepath.Join(work, "path/to/file"), []byte("file contents here"), 0o600)
	}
	if err == nil {
		err = os.Mkdir(filepath.Join(work, ".busbar"), 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(work, ".busbar/workspace.yaml"), []byte("ci:\n  test: echo tested\n"), 0o600)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	the.outside = []string{
		"BUSBAR_WORKSPACE_ROOTS=main=" + work,
		"BUSBAR_WEATHER_URL=" + the.noaa.URL, "BUSBAR_GITHUB_URL=" + github.URL,
		"BUSBAR_MODEL_PROVIDER=openai", "BUSBAR_MODEL_URL=" + model.URL, "BUSBAR_MODEL_NAME=m",
	}
	defer the.end()
	return m.Run()
}

// later keeps what has to end when all tests have.
func (w *world) later(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = append(w.ended, f)
}

func (w *world) end() {
	for i := len(w.ended) - 1; i >= 0; i-- {
		w.ended[i]()
	}
}

// searched is the search of repositories of GitHub's API.
func searched(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/search/repositories" || r.URL.Query().Get("per_page") != "5" {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"total_count":42,"incomplete_results":false,"items":[{"id":1,"name":"repo-name","full_name":"owner/repo-name","private":false,
		"html_url":"https://github.com/owner/repo-name","description":"Opis repozytorium","stargazers_count":123}]}`)
}

// sampled is a model with OpenAI's interface: it repeats its input.
func sampled(w http.ResponseWriter, r *http.Request) {
	var in struct {
		MaxTokens   int     `json:"max_completion_tokens"`
		Old         int     `json:"max_tokens"`
		Temperature float64 `json:"temperature"`
		Messages    []struct {
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	_ = json.NewDecoder(r.Body).Decode(&in)
	text, _ := json.Marshal(fmt.Sprintf("%s, %d tokens, %.1f", in.Messages[len(in.Messages)-1].Content, in.MaxTokens+in.Old, in.Temperature))
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"id":"x","object":"chat.completion","model":"m","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":%s}}]}`, text)
}

// command is the program, without settings that a developer may have.
func command(env []string, args ...string) *exec.Cmd {
	cmd := exec.Command(the.busbar, args...)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "BUSBAR_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, env...)
	return cmd
}

// system is a "busbar dev", as it is.
type system struct{ http, nats, data string }

// join are the flags with which a program joins its bus as one of its users.
func (s system) join(user string) []string {
	return []string{"--nats", s.nats, "--nats-nkey", filepath.Join(s.data, "users", user+".secret")}
}

var readyLine = regexp.MustCompile(`^busbar dev is ready: mcp=(\S+)/mcp nats=(\S+) data=(\S+)`)

// dev is one for all tests, with the world outside on loopback; bare is one as it is
// on a machine without a setting, and without the weather service.
var (
	dev  = sync.OnceValues(func() (system, error) { return startDev(the.outside) })
	bare = sync.OnceValues(func() (system, error) { return startDev(nil, "--without", "weather") })
)

func startDev(env []string, more ...string) (s system, err error) {
	data, err := os.MkdirTemp(the.dir, "data-")
	if err != nil {
		return s, err
	}
	cmd := command(env, append([]string{"dev", "--listen", "127.0.0.1:0", "--nats-listen", "127.0.0.1:0", "--data-dir", data}, more...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return s, err
	}
	var log strings.Builder
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		return s, err
	}
	the.later(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			fmt.Fprintf(os.Stderr, "busbar dev ended: %v\n%s", err, log.String())
		}
	})
	line, _ := bufio.NewReader(out).ReadString('\n')
	m := readyLine.FindStringSubmatch(line)
	if m == nil {
		return s, fmt.Errorf("busbar dev says %q", line)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return system{m[1], m[2], m[3]}, nil
}

func started(t *testing.T, get func() (system, error)) system {
	t.Helper()
	s, err := get()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// answerTime is how long a test waits for one message.
const answerTime = time.Minute
