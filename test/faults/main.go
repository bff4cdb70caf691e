// Command faults takes parts of a fleet away under load, and compares the answers to clients, the
// executions and the audit trail. "go run ./test/faults --help".
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
)

type commandLine struct {
	Figures []string      `arg:"" placeholder:"FIGURE" help:"Which: ${figures}; all, smoke, or soak."`
	Seed    uint64        `default:"1" help:"Decides who calls what, and what is taken away when (default ${default})."`
	For     time.Duration `placeholder:"TIME" help:"How long each figure makes calls; each has its own default."`
	Full    bool          `help:"As long and as much as the published figures want."`
	Streams int           `default:"1000" help:"Idle streams of h7; a tenth as many readers are stuck (default ${default})."`
	Workers int           `default:"12" help:"Clients at any time (default ${default})."`
	Bugs    string        `placeholder:"TEXT" help:"Of proof, only bugs with this in their name; each takes one to two minutes."`
	Calm    bool          `help:"Of soak: take nothing away."`
	Report  string        `placeholder:"FILE" help:"Write the report there as well, in Markdown."`
	Dir     string        `placeholder:"DIR" help:"Keep the fleet's data, logs and histories there. Default: a directory that is removed when nothing was found."`
}

const description = `Takes parts of a fleet away while clients make calls, and says what was lost.

The fleet is docker-compose.yml's, as processes of this machine, with a service whose
effects are counted apart. What must hold, whatever the machine does besides, are the
oracles; times are printed with the machine's load.

Examples:
  go run ./test/faults h1 --seed 7 --for 2m
  go run ./test/faults all --report docs/evidence/reports/faults.md
  go run ./test/faults smoke`

func main() {
	var cl commandLine
	var names []string
	for _, f := range figures {
		names = append(names, f.name)
	}
	k := kong.Parse(&cl, kong.Name("faults"), kong.Description(description), kong.UsageOnError(), kong.Vars{"figures": strings.Join(names, ", ")})
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	k.FatalIfErrorf(cl.run(ctx))
}

var errFound = errors.New("something happened that must not; see FOUND above")

func (cl commandLine) run(ctx context.Context) (err error) {
	var chosen []figure
	for _, name := range cl.Figures {
		switch i := slices.IndexFunc(figures, func(f figure) bool { return f.name == name }); {
		case name == "all":
			chosen = append(chosen, figures...)
		case name == smoke.name:
			chosen = append(chosen, smoke)
		case name == soak.name:
			chosen = append(chosen, soak)
		case i < 0:
			return fmt.Errorf("there is no figure %q; --help lists them", name)
		default:
			chosen = append(chosen, figures[i])
		}
	}
	root, err := checkout()
	if err != nil {
		return err
	}
	dir := cl.Dir
	if dir == "" {
		if dir, err = os.MkdirTemp("", "busbar-faults-"); err != nil {
			return err
		}
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	report := newReport(root, cl.Seed)
	for _, f := range chosen {
		fmt.Printf("== %s: %s\n", f.name, f.what)
		r, err := cl.one(ctx, f, root, filepath.Join(dir, f.name))
		if err != nil {
			return fmt.Errorf("%s: %w; its logs are in %s", f.name, err, dir)
		}
		r.print(os.Stdout)
		report.results = append(report.results, r)
		if cl.Report != "" { // also when a later figure cannot be run
			if err := report.write(cl.Report); err != nil {
				return err
			}
		}
	}
	if report.found() > 0 {
		// The last lines say what: CI keeps only part of a log.
		return fmt.Errorf("%w; logs and histories are in %s%s", errFound, dir, report.short())
	}
	if cl.Dir == "" {
		return os.RemoveAll(dir)
	}
	return nil
}

// one runs a figure on a fleet of its own.
func (cl commandLine) one(ctx context.Context, f figure, root, dir string) (r *result, err error) {
	r = &result{figure: f.name, what: f.what, began: time.Now()}
	w := &world{root: root, dir: dir, seed: cl.Seed, full: cl.Full, workers: cl.Workers, streams: cl.Streams, bugs: cl.Bugs, broad: f.broad, calm: cl.Calm, result: r}
	if w.length = f.short; cl.Full {
		w.length = f.long
	}
	if cl.For > 0 {
		w.length = cl.For
	}
	if err := w.up(ctx, f); err != nil {
		return nil, errors.Join(err, w.down())
	}
	defer func() { err = errors.Join(err, w.down()) }()
	if err := f.run(ctx, w); err != nil {
		return nil, err
	}
	r.took = time.Since(r.began)
	return r, ctx.Err()
}

// checkout is the directory with docker-compose.yml, here or above.
func checkout() (string, error) {
	dir, err := os.Getwd()
	for ; err == nil; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "docker-compose.yml")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			err = errors.New("there is no docker-compose.yml here or above")
		}
	}
	return "", err
}
