package main

import (
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/services/busbar/internal/terminal"
)

// The list of services fits 80 columns, and shows everything at 160.
func TestServicesTable(t *testing.T) {
	t.Parallel()
	titles := []string{"SERVICE", "VERSION", "STATE", ">AGE", ">INSTANCES", ">CALLS", ">ERRORS", "OFFERS"}
	long := "a-service-with-a-name-that-is-long"
	rows := func() [][]string {
		return [][]string{
			{"text", "0.1.0", "ready", "3d4h", "2", "1234567", "12", "4 tools"},
			{long, "1.2.3-beta.1", "1 of 3 ready", "12s", "3", "0", "0", "9 prompts, 6 tools\x1b[2J"},
		}
	}
	for _, width := range []int{80, 160} {
		got := servicesTable(titles, rows(), width, terminal.Style{})
		for line := range strings.Lines(got) {
			if terminal.Cells(strings.TrimSuffix(line, "\n")) > width {
				t.Errorf("wider than %d: %s", width, line)
			}
		}
		for _, want := range []string{"STATE", "AGE", "INSTANCES", "CALLS", "ERRORS", "3d4h", "1234567"} {
			if !strings.Contains(got, want) {
				t.Errorf("%d columns lack %s:\n%s", width, want, got)
			}
		}
		if strings.Contains(got, "\x1b") || width == 160 && !strings.Contains(got, long) {
			t.Errorf("%d columns:\n%s", width, got)
		}
	}
}
