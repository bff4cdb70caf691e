package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/busbar-mcp/busbar/test/faults/history"
	"github.com/busbar-mcp/busbar/test/faults/oracle"
)

// result is the result of one figure.
type result struct {
	figure, what string
	began        time.Time
	took         time.Duration

	mu       sync.Mutex
	rows     []row
	findings []oracle.Finding
	load     []float64
}

// row is something measured. Times depend on the machine, so they are shown beside what
// is wanted, and judged by nobody.
type row struct{ what, value, wanted string }

func (r *result) row(what, wanted, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rows = append(r.rows, row{what, fmt.Sprintf(format, args...), wanted})
}

func (r *result) found(f ...oracle.Finding) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.findings = append(r.findings, f...)
}

// counts says how much was judged.
func (r *result) counts(run oracle.Run) {
	kinds := map[history.Kind]int{}
	failed := map[history.Kind]int{}
	doors, failedAt := map[string]int{}, map[string]int{}
	ok, no, unknown, tries := 0, 0, 0, 0
	for _, c := range run.Calls {
		kinds[c.Kind]++
		if doors[c.Door]++; !c.OK() {
			failedAt[c.Door]++
		}
		tries += len(c.Tries)
		switch {
		case c.OK():
			ok++
		case c.Last().Executed == "no":
			no++
			failed[c.Kind]++
		default:
			unknown++
			failed[c.Kind]++
		}
	}
	r.row("calls", "", "%d in %d tries: %d ok, %d `executed: no`, %d unknown", len(run.Calls), tries, ok, no, unknown)
	var each []string
	for _, k := range sorted(kinds) {
		each = append(each, fmt.Sprintf("%s %d (%d)", k, kinds[k], failed[k]))
	}
	r.row("of each kind (not ok)", "", "%s", strings.Join(each, ", "))
	each = nil
	for _, d := range sorted(doors) {
		each = append(each, fmt.Sprintf("%s %d (%d)", d, doors[d], failedAt[d]))
	}
	r.row("at each door (not ok)", "", "%s", strings.Join(each, ", "))
	r.row("effects in the ledger, rows of the trail", "", "%d, %d", len(run.Ran), len(run.Trail))
}

func sorted[K ~string, V any](m map[K]V) []K {
	var keys []K
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// watchLoad notes how busy the machine is.
func (r *result) watchLoad() (stop func()) {
	return ticking(2*time.Second, func(context.Context) {
		var one float64
		if raw, err := os.ReadFile("/proc/loadavg"); err == nil {
			_, _ = fmt.Sscan(string(raw), &one)
		}
		r.mu.Lock()
		r.load = append(r.load, one)
		r.mu.Unlock()
	})
}

// quantile of durations; 0 of none.
func quantile(all []time.Duration, q float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[min(len(all)-1, int(q*float64(len(all))))].Round(time.Millisecond)
}

// byOracle puts what was found together: how often, and some of each.
func (r *result) byOracle() map[oracle.Name][]string {
	all := map[oracle.Name][]string{}
	for _, f := range r.findings {
		all[f.Oracle] = append(all[f.Oracle], f.Text)
	}
	return all
}

const examples = 4

func (r *result) print(out io.Writer) {
	for _, row := range r.rows {
		wanted := ""
		if row.wanted != "" {
			wanted = "   (wanted: " + row.wanted + ")"
		}
		fmt.Fprintf(out, "   %s: %s%s\n", row.what, row.value, wanted)
	}
	if len(r.load) > 0 {
		fmt.Fprintf(out, "   load of the machine: %s\n", r.loads())
	}
	all := r.byOracle()
	for _, name := range sorted(all) {
		fmt.Fprintf(out, "FOUND %s, %d times: %s\n", name, len(all[name]), oracle.Means[name])
		for _, text := range all[name][:min(examples, len(all[name]))] {
			fmt.Fprintf(out, "      %s\n", text)
		}
	}
	if len(all) == 0 {
		fmt.Fprintf(out, "   nothing was found\n")
	}
}

func (r *result) loads() string {
	return fmt.Sprintf("%.1f to %.1f", slices.Min(r.load), slices.Max(r.load))
}

// report is the report that a run writes.
type report struct {
	version string
	seed    uint64
	results []*result
}

func newReport(root string, seed uint64) *report { return &report{version: version(root), seed: seed} }

func (r *report) found() (n int) {
	for _, f := range r.results {
		n += len(f.findings)
	}
	return n
}

// short lists the findings, a line for each oracle.
func (r *report) short() string {
	var b strings.Builder
	for _, f := range r.results {
		all := f.byOracle()
		for _, name := range sorted(all) {
			fmt.Fprintf(&b, "\n%s: FOUND %s, %d times: %s, such as %.300s", f.figure, name, len(all[name]), oracle.Means[name], all[name][0])
		}
	}
	return b.String()
}

// version returns the version of a checkout.
func version(root string) string {
	cmd := exec.Command("git", "describe", "--always", "--dirty")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

func machine() string {
	model := ""
	if raw, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(raw)) {
			if name, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(name) == "model name" {
				model = ", " + strings.TrimSpace(value)
				break
			}
		}
	}
	return fmt.Sprintf("%d processors%s, %s/%s, %s", runtime.NumCPU(), model, runtime.GOOS, runtime.GOARCH, runtime.Version())
}

func (r *report) write(file string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Faults, %s\n\n", time.Now().UTC().Format("2006-01-02"))
	fmt.Fprintf(&b, "Version %s, seed %d, %s. Made by `go run ./test/faults`; [the reports](README.md#figures) say what each figure does.\n", r.version, r.seed, machine())
	fmt.Fprintf(&b, "Times are those of this machine under the load that is shown; what was found does not depend on it.\n")
	for _, f := range r.results {
		fmt.Fprintf(&b, "\n## %s: %s\n\n", f.figure, f.what)
		fmt.Fprintf(&b, "%s", f.took.Round(time.Second))
		if len(f.load) > 0 {
			fmt.Fprintf(&b, ", load of the machine %s", f.loads())
		}
		fmt.Fprintf(&b, ".\n\n| what | measured | wanted |\n|---|---|---|\n")
		for _, row := range f.rows {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", row.what, row.value, row.wanted)
		}
		all := f.byOracle()
		if len(all) == 0 {
			fmt.Fprintf(&b, "| **found by the oracles** | **nothing** | nothing |\n")
		}
		for _, name := range sorted(all) {
			fmt.Fprintf(&b, "| **%s** | **%d times: %s** | never |\n", name, len(all[name]), oracle.Means[name])
		}
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(b.String()), 0o644)
}
