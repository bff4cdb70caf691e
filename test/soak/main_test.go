// Package soak runs a whole Busbar for an hour: real processes, calls at every door, and processes
// that are killed, stopped and started all the while. In the end the answers, the executions and
// the audit trail must agree, and nothing that is bounded may have grown. "make soak" starts it.
package soak

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/natsd"
	"github.com/busbar-mcp/busbar/libs/service"
)

var (
	soakFor  = flag.Duration("soak.for", 0, "how long to make calls; without it the soak is skipped")
	programs = flag.String("soak.bin", "../../bin", "where make build puts the programs")
	workers  = flag.Int("soak.workers", 8, "how many clients there are at any time")
	seed     = flag.Uint64("soak.seed", 1, "decides what is called and killed, and in which order")
	calm     = flag.Bool("soak.calm", false, "kill nothing")
)

// role is the variable that says which part a process of this binary plays, if it is not the test:
// a soak needs a NATS server and a service of its own that can be killed.
const role = "BUSBAR_SOAK_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(role) {
	case "nats":
		serveNATS()
	case "ledger":
		service.Main("ledger", func(context.Context, service.Env) (*service.Service, error) {
			return newLedgerService(os.Getenv(ledgerFile)), nil
		})
	default:
		os.Exit(m.Run())
	}
}

func serveNATS() {
	server, err := natsd.Start(natsd.Config{Listen: os.Args[1], DataDir: os.Args[2], Logger: slog.Default()})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	<-stop
	server.Stop()
}

func TestSoak(t *testing.T) {
	if *soakFor == 0 {
		t.Skip("started by make soak")
	}
	bin, err := filepath.Abs(*programs)
	if err != nil {
		t.Fatal(err)
	}
	f := startFleet(t, bin)
	w := newWorld(f, *seed)
	m := startMeasuring(t, f, *soakFor)
	ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt)
	defer stop()

	unwatch := w.watch()
	screen := startScreen(w, m, time.Now().Add(*soakFor))
	kills := make(chan struct{})
	go func() {
		defer close(kills)
		if !*calm {
			disturb(ctx, w, *soakFor)
		}
	}()
	w.load(ctx, *workers, *soakFor)
	<-kills
	screen.stop()
	unwatch()
	w.settle(ctx)
	m.stop()
	w.judge(t)
	m.judge(w)

	screen.summary()
	if t.Failed() || len(w.faults()) > 0 {
		fmt.Fprintf(os.Stderr, "seed %d; logs are in %s\n", *seed, f.keepLogs())
	}
	// The last lines say what failed: CI keeps only part of a log.
	for _, fault := range w.faults() {
		t.Errorf("%s: %d times, such as %.400s", fault.what, fault.times, fault.examples[0])
	}
}
