package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestBatch makes the calls of a file by the command line.
func TestBatch(t *testing.T) {
	t.Parallel()
	_, dev := startDev(t)
	const n = 300
	var calls strings.Builder
	for i := range n {
		fmt.Fprintf(&calls, "{\"name\":\"analyzeText\",\"parameters\":{\"text\":%q}}\n", strings.Repeat("word ", i+1))
	}
	calls.WriteString("\n{\"name\":\"nope\"}\n{broken")
	file := filepath.Join(t.TempDir(), "calls.jsonl")
	if err := os.WriteFile(file, []byte(calls.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "busbar"), "batch", "--url", dev.mcp, file)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	var exit *exec.ExitError
	if err := cmd.Run(); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Fatalf("exit %v: %s", err, said.String())
	}
	if !strings.HasPrefix(said.String(), fmt.Sprintf("%d calls, 2 failed, in ", n+2)) {
		t.Errorf("said %q", said.String())
	}
	seen := map[int]bool{}
	for line := range strings.Lines(out.String()) {
		var slot struct {
			Index      int
			Reason     string
			Structured struct{ Statistics struct{ WordCount int } } `json:"structured_content"`
		}
		if err := json.Unmarshal([]byte(line), &slot); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		seen[slot.Index] = true
		if slot.Index < n && slot.Structured.Statistics.WordCount != slot.Index+1 ||
			slot.Index == n && slot.Reason != "unknown_tool" || slot.Index == n+1 && slot.Reason != "parse_error" {
			t.Errorf("%s", line)
		}
	}
	if len(seen) != n+2 {
		t.Errorf("%d results", len(seen))
	}
}
