package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/busbar-mcp/busbar/libs/bus/permission"
	"github.com/busbar-mcp/busbar/libs/join"
	"github.com/busbar-mcp/busbar/services/busbar/internal/terminal"
	"github.com/busbar-mcp/busbar/services/busbar/internal/top"
)

type topCommand struct {
	join.Flags
	Every time.Duration `default:"2s" placeholder:"TIME" help:"Time between two measurements, at least 200ms (default ${default})."`
	Tools bool          `help:"Show tools instead of instances."`
	Once  bool          `help:"Measure for that time, print the result, and end."`
	JSON  bool          `name:"json" env:"BUSBAR_JSON" help:"Print a line of JSON for each measurement."`
}

// Help implements kong's HelpProvider.
func (topCommand) Help() string {
	return `Examples:
  busbar top
  busbar top --tools
  busbar top --once --json --nats tls://nats.example:4222 --nats-nkey operator.secret

Shows each instance on the bus: calls and errors per second, the times within which
50% and 99% of the calls ended, used slots, calls that wait for a slot, and calls
and errors since the instance started. Press t to switch between instances and
tools, and q to quit. Each instance counts its first 256 tools; calls of others
appear only in its total. It asks each instance once for each measurement. If standard
output is not a terminal, it prints each measurement below the last one.`
}

const (
	// joinTime bounds joining the bus: a person waits.
	joinTime  = 10 * time.Second
	leastLook = 200 * time.Millisecond
	// A screen of its own, without a cursor, and back.
	enterScreen = "\x1b[?1049h\x1b[?25l"
	leaveScreen = "\x1b[?25h\x1b[?1049l"
)

// Validate implements kong's interface.
func (c *topCommand) Validate() error {
	if c.Every < leastLook {
		return fmt.Errorf("--every %v: the shortest time is %v", c.Every, leastLook)
	}
	return nil
}

func (c *topCommand) Run(ctx context.Context, out io.Writer) error {
	joining, cancel := context.WithTimeout(ctx, joinTime)
	defer cancel()
	conn, err := c.ConnectNow(joining, permission.Operator, "top")
	if err != nil {
		return err
	}
	defer conn.Close()
	stdout, stdin := int(os.Stdout.Fd()), int(os.Stdin.Fd())
	onScreen := term.IsTerminal(stdout)
	o := top.Options{Every: c.Every, Tools: c.Tools, Once: c.Once, JSON: c.JSON, Style: terminal.NewStyle(onScreen, os.Getenv)}
	if !onScreen || !term.IsTerminal(stdin) || c.Once || c.JSON {
		return top.Run(ctx, conn, o, out)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	before, err := term.MakeRaw(stdin)
	if err != nil {
		return fmt.Errorf("the terminal: %w", err)
	}
	defer func() { _ = term.Restore(stdin, before) }()
	if _, err := io.WriteString(out, enterScreen); err != nil {
		return err
	}
	defer func() { _, _ = io.WriteString(out, leaveScreen) }()
	o.Screen = func() (int, int) {
		width, height, err := term.GetSize(stdout)
		if err != nil || width <= 0 || height <= 0 { // as in a pseudo terminal without a size
			return terminal.Columns(0, os.Getenv), 24
		}
		return width, height
	}
	keys := make(chan byte)
	go readKeys(ctx, os.Stdin, keys) // ends with the process: a read of a terminal cannot be taken back
	o.Keys = keys
	resized := make(chan struct{})
	go watchSize(ctx, o.Screen, resized)
	o.Resized = resized
	return top.Run(ctx, conn, o, out)
}

// watchSize says when the size of the terminal has changed. Not every system has a
// signal for that.
func watchSize(ctx context.Context, size func() (int, int), changed chan<- struct{}) {
	tick := time.NewTicker(leastLook)
	defer tick.Stop()
	width, height := size()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if w, h := size(); w != width || h != height {
			width, height = w, h
			select {
			case changed <- struct{}{}:
			case <-ctx.Done():
				return
			}
		}
	}
}

// readKeys passes on what is typed.
func readKeys(ctx context.Context, in io.Reader, keys chan<- byte) {
	defer close(keys)
	var one [1]byte
	for {
		n, err := in.Read(one[:])
		if n == 1 {
			select {
			case keys <- one[0]:
			case <-ctx.Done():
				return
			}
		}
		if err != nil {
			return
		}
	}
}
