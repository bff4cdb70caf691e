// Command fleet starts the topology of docker-compose.yml as processes of this machine,
// for those who have no container engine, and for tests that kill parts of it. The
// script scripts/fleet runs it.
package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/busbar-mcp/busbar/test/fleet"
)

type commandLine struct {
	Dir     string   `default:".tmp/fleet" placeholder:"DIR" help:"Where the fleet keeps its data and logs (default ${default})."`
	Profile []string `placeholder:"NAME" help:"Profiles of docker-compose.yml: small or fleet, and more such as workspace (default: those that were started last, or fleet)."`

	Up     upCommand     `cmd:"" help:"Start what does not run, and wait until calls go through."`
	Status statusCommand `cmd:"" help:"Say what runs, and where it listens."`
	Run    runCommand    `cmd:"" help:"Run a command here, as the operator or another part."`
	Kill   killCommand   `cmd:"" help:"Kill a part; \"up\" starts it again."`
	Down   downCommand   `cmd:"" help:"Stop everything."`
}

type (
	upCommand struct {
		Parts []string `arg:"" optional:"" name:"part" help:"Only these, and what they depend on."`
	}
	statusCommand struct{}
	killCommand   struct {
		Part   string `arg:"" help:"Its name in docker-compose.yml, such as edge-2."`
		Signal string `default:"KILL" enum:"KILL,TERM,STOP,CONT,HUP" help:"Signal to send: KILL, TERM, STOP, CONT or HUP (default ${default})."`
	}
	runCommand struct {
		Part    string   `arg:"" help:"operator, or edge-1, as with \"docker compose run\"."`
		Command []string `arg:"" optional:"" passthrough:"" help:"What it does, such as doctor, top, or key create laptop --principal me."`
	}
	downCommand struct {
		Volumes bool `short:"v" help:"Remove its data as well."`
	}
)

const description = `Starts the topology of docker-compose.yml as processes of this machine.

Each part listens on an address of its own, 127.0.7.N. It takes Go, and PostgreSQL;
with haproxy there is one address for all edges.

Examples:
  scripts/fleet up
  scripts/fleet run operator doctor
  scripts/fleet kill nats-2
  scripts/fleet --profile small up
  scripts/fleet --profile small,workspace up
  scripts/fleet down --volumes`

// upTime bounds a start, with the building of the programs.
const upTime = 10 * time.Minute

func main() {
	var cl commandLine
	k := kong.Parse(&cl, kong.Name("fleet"), kong.Description(description), kong.UsageOnError())
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	dir, err := filepath.Abs(cl.Dir)
	k.FatalIfErrorf(err)
	root, err := checkout()
	k.FatalIfErrorf(err)
	f, err := fleet.New(ctx, fleet.Options{Root: root, Dir: dir, Profile: cmp.Or(strings.Join(cl.Profile, ","), fleet.Started(dir), "fleet"), Out: os.Stdout})
	k.FatalIfErrorf(err)
	k.BindTo(ctx, (*context.Context)(nil))
	err = k.Run(f)
	if err != nil && ctx.Err() != nil {
		err = f.Interrupted() // and not the error of a build that the signal ended, too
	}
	k.FatalIfErrorf(err)
}

// checkout is the directory with docker-compose.yml, here or above.
func checkout() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "docker-compose.yml")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("there is no docker-compose.yml here or above")
		}
		dir = filepath.Dir(dir)
	}
}

// Run starts the fleet.
func (c upCommand) Run(ctx context.Context, f *fleet.Fleet) error {
	ctx, cancel := context.WithTimeout(ctx, upTime)
	defer cancel()
	if err := f.Up(ctx, c.Parts...); err != nil {
		return err
	}
	if err := f.Status(); err != nil {
		return err
	}
	if len(c.Parts) > 0 {
		return nil
	}
	fmt.Printf("\nClients connect to %s. For commands: scripts/fleet run operator doctor\n", f.Clients())
	return nil
}

// Run runs a command of a part.
func (c runCommand) Run(f *fleet.Fleet) error { return f.Run(c.Part, c.Command) }

// Run lists the parts.
func (statusCommand) Run(f *fleet.Fleet) error { return f.Status() }

// Run signals a part.
func (c killCommand) Run(f *fleet.Fleet) error {
	signals := map[string]syscall.Signal{"KILL": syscall.SIGKILL, "TERM": syscall.SIGTERM, "STOP": syscall.SIGSTOP, "CONT": syscall.SIGCONT, "HUP": syscall.SIGHUP}
	return f.Signal(c.Part, signals[c.Signal])
}

// Run stops the fleet.
func (c downCommand) Run(f *fleet.Fleet) error { return f.Down(c.Volumes) }
