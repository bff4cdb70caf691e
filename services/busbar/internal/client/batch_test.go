package client

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// inOrder has a batch's lines in the order of their calls, and no time.
func inOrder(t *testing.T, o outcome) outcome {
	t.Helper()
	type line struct {
		index int
		text  string
	}
	var lines []line
	for text := range strings.Lines(o.stdout) {
		var slot struct{ Index *int }
		if err := json.Unmarshal([]byte(text), &slot); err != nil || slot.Index == nil {
			t.Fatalf("%v: %s", err, text)
		}
		lines = append(lines, line{*slot.Index, text})
	}
	slices.SortFunc(lines, func(a, b line) int { return a.index - b.index })
	var b strings.Builder
	for i, l := range lines {
		if l.index != i {
			t.Errorf("outcome %d is of call %d", i, l.index)
		}
		b.WriteString(l.text)
	}
	o.stdout = b.String()
	return o
}

func TestBatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	file := func(t *testing.T, text string) string {
		t.Helper()
		name := filepath.Join(t.TempDir(), "calls.jsonl")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	var many, failing strings.Builder
	for i := range 700 { // more than the window
		fmt.Fprintf(&many, "{\"name\":\"say\",\"parameters\":{\"text\":\"%d\"}}\n", i)
		fmt.Fprintln(&failing, `{"name":"nope"}`)
	}
	for _, c := range []struct {
		name, lines    string
		code, calls    int
		stdout, stderr string // parts
	}{
		{"many", many.String(), ExitOK, 700, `{"index":699,"content":[{"type":"text","text":"699"}],"is_error":false}`, "700 calls, 0 failed, "},
		{"all fail", failing.String(), ExitToolError, 700, `{"index":7,"error":"Unknown tool: nope","reason":"unknown_tool","executed":"no","next":"GET /tools lists the tools","is_error":true}`, "700 calls, 700 failed, "},
		{"of each kind", `{"name":"say","parameters":{"text":"a"}}` + "\n\n{broken\r\n" + `{"name":"measure","arguments":{"text":"four"},"idempotency_key":"k"}` + "\n{}\n[1]\n" +
			`{"name":"say","x":1}` + "\n" + `{"name":"wipe","args":{"text":"k"}}` + "\n" + `{"name":"measure","parameters":{"text":1}}` + "\n  " + `{"name":"fail"}`,
			ExitToolError, 9, `{"index":2,"content":[{"type":"text","text":"{\"length\":4}"}],"structured_content":{"length":4},"is_error":false}`, "9 calls, 7 failed, "},
		{"none", "\n\n", ExitOK, 0, "", "0 calls, 0 failed, "},
		{"a line that is too long", `{"name":"say"}` + "\n" + `{"name":"say","parameters":{"text":"` + strings.Repeat("x", 1<<20) + `"}}` + "\n" + `{"name":"say"}`,
			ExitTransport, 1, `{"index":0,`, "error: a line of the batch is longer than 983040 bytes\n  reason: too_large\n  next: send smaller arguments\n1 call, 0 failed, "},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			name := file(t, c.lines)
			got := w.constant(inOrder(t, runBatch(t, BatchOptions{Options: w.options(), File: name}, nil)))
			if got.code != c.code || strings.Count(got.stdout, "\n") != c.calls || !strings.Contains(got.stdout, c.stdout) || !strings.HasPrefix(got.stderr, c.stderr) {
				t.Errorf("code %d, %d lines, stderr %q\n%.2000s", got.code, strings.Count(got.stdout, "\n"), got.stderr, got.stdout)
			}
		})
	}
	t.Run("no such file", func(t *testing.T) {
		t.Parallel()
		got := w.constant(runBatch(t, BatchOptions{Options: w.options(), File: "/nothing/there"}, nil))
		got.check(t, ExitUsage, "", "no such file")
	})
	t.Run("output that cannot be written", func(t *testing.T) {
		t.Parallel()
		var errs strings.Builder
		code := RunBatch(t.Context(), BatchOptions{Options: w.options(), File: "-"}, strings.NewReader(many.String()), fullDisk{}, &errs)
		if code != ExitTransport || !strings.Contains(errs.String(), "cannot write the output: disk full") {
			t.Errorf("%d %s", code, errs.String())
		}
	})
	t.Run("outcomes come while calls are still to be said", func(t *testing.T) {
		t.Parallel()
		in, say := io.Pipe()
		outcomes := make(chan string, 1)
		ended := make(chan error, 1)
		e := &Client{URL: w.url}
		go func() {
			ended <- e.Batch(t.Context(), in, func(outcome jsontext.Value, _ bool) error {
				outcomes <- string(outcome)
				return nil
			})
		}()
		for i := range 3 {
			if _, err := io.WriteString(say, `{"name":"say"}`+"\n"); err != nil {
				t.Fatal(err)
			}
			select {
			case got := <-outcomes:
				if !strings.HasPrefix(got, fmt.Sprintf(`{"index":%d,`, i)) {
					t.Error(got)
				}
			case <-time.After(time.Minute):
				t.Fatalf("no outcome of call %d", i)
			}
		}
		_ = say.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
