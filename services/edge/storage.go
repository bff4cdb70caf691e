package edge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/bus/permission"
	"github.com/busbar-mcp/busbar/libs/bus/storage"
	"github.com/busbar-mcp/busbar/libs/join"
)

// storageTime bounds a command about the bus's storage.
const storageTime = time.Minute

// CheckBus is the command line that checks the buckets and streams of a bus. The tags are
// read by kong.
type CheckBus struct {
	busFlags
	StorageFlags
	JSON bool `name:"json" env:"BUSBAR_JSON" help:"Print JSON."`
}

// Help implements kong's HelpProvider.
func (CheckBus) Help() string {
	return `Example: busbar bus check --nats nats://127.0.0.1:4222

It changes nothing. Exit status 1 means that something is not as it should be;
what, and the command that mends it, is printed.`
}

// Run prints their state to out.
func (c *CheckBus) Run(ctx context.Context, out io.Writer) error {
	conn, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, storageTime)
	defer cancel()
	return showStorage(out, storage.Check(ctx, conn, c.Replicas), c.JSON)
}

// ApplyBus is the command line that makes the buckets and streams of a bus.
type ApplyBus struct {
	join.Flags
	StorageFlags
}

// Help implements kong's HelpProvider.
func (ApplyBus) Help() string {
	return `Examples:
  busbar bus apply --nats nats://127.0.0.1:4222
  busbar bus apply --nats-replicas 3 --nats tls://nats.example:4222 --nats-nkey edge.secret

Creates the buckets and streams that are missing, brings the settings of the others
up to this release, and sets how many servers keep each. Edges do the same when they
start, but never lower that number. The contents stay. On a bus with users it needs
the secret of the edges.`
}

// Run makes them, and prints that.
func (c *ApplyBus) Run(ctx context.Context, out io.Writer) error {
	connecting, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	conn, err := c.ConnectNow(connecting, permission.Edge, "edge")
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, stop := context.WithTimeout(ctx, storageTime)
	defer stop()
	if err := storage.Apply(ctx, conn, c.Replicas); err != nil {
		return fmt.Errorf("apply: %w", err)
	}
	_, err = fmt.Fprintln(out, "the buckets and streams are in place; \"busbar bus check\" shows them")
	return err
}

// showStorage prints the state of the bus's storage. The error means that something is
// wrong.
func showStorage(out io.Writer, all []storage.State, asJSON bool) error {
	wrong := 0
	for _, s := range all {
		wrong += len(s.Problems)
	}
	if asJSON {
		if err := json.MarshalWrite(out, all, jsontext.Multiline(true)); err != nil {
			return err
		}
	} else if err := tabulate(out, all); err != nil {
		return err
	}
	switch wrong {
	case 0:
		return nil
	case 1:
		return errors.New("one thing is not as it should be")
	}
	return fmt.Errorf("%d things are not as they should be", wrong)
}

func tabulate(out io.Writer, all []storage.State) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "NAME\tSERVERS\tLEADER\tMESSAGES\tMIB\tOF MIB")
	for _, s := range all {
		_, _ = fmt.Fprintf(table, "%s\t%d\t%s\t%d\t%.1f\t%d\n", s.Name, s.Replicas, s.Leader, s.Messages, float64(s.Bytes)/(1<<20), max(s.Limit, 0)>>20)
		for _, c := range s.Consumers {
			_, _ = fmt.Fprintf(table, "  read by %s\t\t\t%d waiting\t%d unacknowledged\t\n", c.Name, c.Pending, c.Unacknowledged)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, s := range all {
		for _, p := range s.Problems {
			if _, err := fmt.Fprintf(out, "%s: %s; %s: %s\n", s.Name, p.What, p.Follows, p.Mend); err != nil {
				return err
			}
		}
	}
	return nil
}
