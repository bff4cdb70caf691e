// Command bench measures Busbar beside what it could be measured against, in turns on the
// same machine: the bare floor of HTTP and NATS, and other servers of MCP. All of it runs
// as real processes, with real databases, and an answer that is wrong ends the run. "make
// bench".
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/busbar-mcp/busbar/test/bench/load"
)

const usage = `Usage: go run ./test/bench [flags]

Measures Busbar beside the bare floor of HTTP and NATS and beside other servers of MCP, in
turns, and prints ratios: the median of the rounds, with the lowest and the highest.

Flags:
  --only NAME,...   some groups of rows:
%s  --rounds N        how often each is measured (default 5)
  --seconds N       how long one is under load in a round of "core" (default 2);
                    half of it in others
  --connections N   how many clients call at once (default 32)
  --out FILE        the page that a run of all groups writes its figures into,
                    between its markers, with plots in a directory of its name
                    (default docs/evidence/performance.md; "none" writes nothing)
  --smoke           as short as it can be: fails on errors, never on a figure
  --help            this

Examples:
  go run ./test/bench --only core                      the small call
  go run ./test/bench --only core --rounds 3 --seconds 1   in a minute
  go run ./test/bench                                  all, into docs/evidence/performance.md
`

// options say what is measured and how long.
type options struct {
	only        []string
	rounds      int
	round       time.Duration
	connections int
	out         string
	smoke       bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	root, err := top()
	if err != nil {
		return err
	}
	if o.out == "" && len(o.only) == 0 && !o.smoke {
		o.out = filepath.Join(root, "docs", "evidence", "performance.md")
	}
	written := o.out != "" && o.out != "none"
	if written { // before a quarter of an hour is spent
		if _, _, err := byHand(o.out); err != nil {
			return err
		}
	}
	b := &bench{options: o, root: root, machine: thisMachine(root)}
	b.say("building")
	if b.programs, err = build(ctx, root); err != nil {
		return err
	}
	begin := time.Now()
	for _, g := range groups {
		if len(o.only) > 0 && !slices.Contains(o.only, g.name) {
			continue
		}
		if err := b.twice(ctx, g); err != nil {
			return fmt.Errorf("%s: %w", g.name, err)
		}
	}
	b.machine.LoadAfter, b.machine.Date = loadAverage(), begin.UTC().Format(time.DateOnly)
	b.print(os.Stdout, time.Since(begin))
	// A machine stands still now and then; what refuses each other call is not that.
	if more, of := load.Again(); more > of {
		return fmt.Errorf("%d calls were refused and %d answered", more, of)
	}
	if !written {
		return nil
	}
	return b.write(o.out, time.Since(begin))
}

func parse(args []string) (options, error) {
	var o options
	var only string
	var seconds float64
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.StringVar(&only, "only", "", "")
	f.IntVar(&o.rounds, "rounds", 5, "")
	f.Float64Var(&seconds, "seconds", 2, "")
	f.IntVar(&o.connections, "connections", 32, "")
	f.StringVar(&o.out, "out", "", "")
	f.BoolVar(&o.smoke, "smoke", false, "")
	f.Usage = func() {
		var names strings.Builder
		for _, g := range groups {
			fmt.Fprintf(&names, "                      %-9s %s\n", g.name, g.about)
		}
		fmt.Fprintf(os.Stderr, usage, names.String())
	}
	if err := f.Parse(args); err != nil {
		return o, err
	}
	switch {
	case f.NArg() > 0:
		return o, fmt.Errorf("%q is no flag; --help lists them", f.Arg(0))
	case o.rounds < 1 || o.rounds > 1000:
		return o, errors.New("--rounds is from 1 to 1000")
	case seconds < 0.1 || seconds > 3600:
		return o, errors.New("--seconds is from 0.1 to 3600")
	case o.out != "" && only != "":
		return o, errors.New("--out writes all figures: leave --only out")
	case o.connections < 1 || o.connections > 10_000:
		return o, errors.New("--connections is from 1 to 10000")
	}
	o.round = time.Duration(seconds * float64(time.Second))
	if o.smoke {
		o.rounds, o.round = 1, 200*time.Millisecond
	}
	for name := range strings.SplitSeq(only, ",") {
		if name == "" {
			continue
		}
		if !slices.ContainsFunc(groups, func(g group) bool { return g.name == name }) {
			return o, fmt.Errorf("--only %s: there is no such group; --help lists them", name)
		}
		o.only = append(o.only, name)
	}
	return o, nil
}

// top is where go.work lies.
func top() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("no go.work here or above; run it in a checkout of Busbar")
		}
	}
}
