package docs

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/bustest/programs"
)

// anything stands in the page for a value that differs from run to run.
const anything = "…"

// means reports whether got is want, a value of JSON with anything in it.
func means(got, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		got, ok := got.(map[string]any)
		if !ok || len(got) != len(want) {
			return false
		}
		for name, v := range want {
			if !means(got[name], v) {
				return false
			}
		}
		return true
	case []any:
		got, ok := got.([]any)
		if !ok || len(got) != len(want) {
			return false
		}
		for i, v := range want {
			if !means(got[i], v) {
				return false
			}
		}
		return true
	case string:
		if want == anything {
			return got != nil
		}
	}
	return reflect.DeepEqual(got, want)
}

// fill puts the id of the elicitation that an answer tells of where a request names it.
func fill(request, answer string) string {
	if id := regexp.MustCompile(`"elicitation":"(\w+)"`).FindStringSubmatch(answer); id != nil {
		return strings.ReplaceAll(request, "{elicitation}", id[1])
	}
	return request
}

func same(t *testing.T, what, got, want string) {
	t.Helper()
	var g, w any
	if err := json.Unmarshal([]byte(got), &g); err != nil {
		t.Fatalf("%v: %s", err, got)
	}
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatalf("%v: %s", err, want)
	}
	if !means(g, w) {
		t.Errorf("%s\ngot  %s\nwant %s", what, got, want)
	}
}

// TestDoors runs the examples of the doors' page, and of the resources', against a whole system.
// JSON that follows a request is its answer.
func TestDoors(t *testing.T) {
	t.Parallel()
	home := build(t)
	orders, err := programs.Build(root, "./examples/orders")
	if err != nil {
		t.Fatal(err)
	}
	data := t.TempDir()
	dev := exec.Command(filepath.Join(home, "bin", "busbar"), "dev", "--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0", "--nats-listen", "127.0.0.1:0", "--data-dir", data)
	ready := start(t, dev)
	address := regexp.MustCompile(`mcp=(http://\S+)/mcp .*grpc=(\S+)`).FindStringSubmatch(ready)
	if address == nil {
		t.Fatal("it does not say where it listens")
	}
	if nats := regexp.MustCompile(`nats=(\S+)`).FindStringSubmatch(ready); nats == nil {
		t.Fatal("it does not say where the bus is")
	} else {
		shop := exec.Command(orders[0], "--nats", nats[1])
		shop.Env = append(os.Environ(), "BUSBAR_DATA_DIR="+data) // with the secrets of the bus
		startQuiet(t, shop)
	}
	eventually(t, "orders is there", func() error {
		resp, err := http.Get(address[1] + "/tools/orders_cancel")
		if err == nil {
			_ = resp.Body.Close()
		}
		if err == nil && resp.StatusCode != http.StatusOK {
			err = errors.New(resp.Status)
		}
		return err
	})
	pages := map[string]map[string]int{
		"docs/reference/doors.md":             {"http": 9, "graphql": 5, "json": 13, "ws": 3, "go": 1, "text": 1},
		"docs/reference/services/resource.md": {"http": 3, "json": 3},
	}
	for _, page := range slices.Sorted(maps.Keys(pages)) {
		least := pages[page]
		t.Run(page, func(t *testing.T) {
			ran := map[string]int{}
			var request, answer string
			for _, b := range blocks(t, page) {
				ran[b.language]++
				switch {
				case b.language == "graphql":
					request, answer = b.text, post(t, address[1]+"/graphql", fill(b.text, answer))
				case b.language == "http":
					request, answer = b.text, send(t, address[1], fill(b.text, answer))
				case b.language == "json":
					same(t, request, answer, b.text)
				case b.language == "go":
					answer = run(t, b.text, address[2])
				case b.language == "text":
					if answer != b.text {
						t.Errorf("the program says\n%s\nwant\n%s", answer, b.text)
					}
				case b.language == "ws":
					converse(t, address[1]+"/ws", b.text)
				}
			}
			for language, n := range least {
				if ran[language] < n {
					t.Errorf("the page has examples no more: %v", ran)
				}
			}
		})
	}
}

// run runs a program, and returns its output.
func run(t *testing.T, program string, args ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("go", append([]string{"run", file}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

// send makes a request as it is written down: a line with method and path,
// headers, an empty line, the body.
func send(t *testing.T, address, text string) string {
	t.Helper()
	head, body, _ := strings.Cut(strings.TrimSpace(text), "\n\n")
	lines := strings.Split(head, "\n")
	method, path, _ := strings.Cut(lines[0], " ")
	r, err := http.NewRequestWithContext(t.Context(), method, address+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Set(name, value)
	}
	return answerTo(t, r)
}

func post(t *testing.T, url, query string) string {
	t.Helper()
	body, err := json.Marshal(map[string]string{"query": query})
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	return answerTo(t, r)
}

func answerTo(t *testing.T, r *http.Request) (answer string) {
	t.Helper()
	bustest.Eventually(t, "NATS is heard", func() bool {
		again := r.Clone(r.Context())
		if r.GetBody != nil {
			again.Body, _ = r.GetBody()
		}
		resp, err := http.DefaultClient.Do(again)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		answer = string(b)
		return !bustest.StoodStill(answer)
	})
	return answer
}

// converse plays a conversation, from its beginning where NATS was not heard meanwhile.
func converse(t *testing.T, url, script string) {
	t.Helper()
	bustest.Eventually(t, "NATS is heard", func() bool { return conversed(t, url, script) })
}

// conversed reports whether NATS was heard.
func conversed(t *testing.T, url, script string) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bustest.Patience)
	defer cancel()
	c, _, err := websocket.Dial(ctx, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.CloseNow() }()
	var last string
	for lines := bufio.NewScanner(strings.NewReader(script)); lines.Scan(); {
		who, message, _ := strings.Cut(lines.Text(), " ")
		switch who {
		case ">":
			if err := c.Write(ctx, websocket.MessageText, []byte(fill(message, last))); err != nil {
				t.Fatal(err)
			}
		case "<":
			_, got, err := c.Read(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if last = string(got); bustest.StoodStill(last) {
				return false
			}
			same(t, "the conversation", last, message)
		default:
			t.Errorf("nobody says %q", lines.Text())
		}
	}
	return true
}
