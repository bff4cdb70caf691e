package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/busbar-mcp/busbar/libs/join"
	"github.com/busbar-mcp/busbar/libs/lifecycle"
	"github.com/busbar-mcp/busbar/services/busbar/internal/client"
	"github.com/busbar-mcp/busbar/services/busbar/internal/doctor"
	"github.com/busbar-mcp/busbar/services/busbar/internal/terminal"
	"github.com/busbar-mcp/busbar/services/edge"
)

type doctorCommand struct {
	join.Flags
	edge.StorageFlags
	URL          []string      `name:"url" default:"${default_url}" env:"BUSBAR_URL" placeholder:"URL,…" help:"Edges to ask whether they are ready; none for \"\" (default ${default})."`
	CA           string        `name:"ca" env:"BUSBAR_CA" placeholder:"FILE" help:"Authorities that vouch for the edges' certificates, in PEM, instead of this machine's."`
	DatabaseURL  string        `name:"database-url" env:"BUSBAR_DATABASE_URL" secret:"password" placeholder:"URL" help:"Postgres of the services that own data; without it, none is asked."`
	Certificates []string      `placeholder:"FILE,…" help:"Certificates in PEM whose expiry counts, besides those that edges and NATS servers show."`
	Access       string        `env:"BUSBAR_ACCESS" placeholder:"FILE" help:"Policy file of the edges."`
	Wait         time.Duration `default:"5s" placeholder:"TIME" help:"Longest time for each check; all are made at once (default ${default})."`
	JSON         bool          `name:"json" env:"BUSBAR_JSON" help:"Print JSON."`
}

// Help implements kong's HelpProvider.
func (doctorCommand) Help() string {
	return `Examples:
  busbar doctor
  busbar doctor --nats tls://nats-1:4222,tls://nats-2:4222 --nats-ca ca.pem --nats-nkey operator.secret \
    --url https://edge-1:8443,https://edge-2:8443 --access access.yaml --json

Looks at the servers of the bus, what the operator may do there, buckets and
streams and who reads them, services and their versions, names, clocks, edges,
the database, certificates and the policy file. For each thing that is not as it
should be it says what follows, and what mends it. It changes nothing.

Exit status: 0 nothing is wrong; 1 something is; 2 wrong usage.`
}

// Validate implements kong's interface.
func (c *doctorCommand) Validate() error {
	if c.Wait <= 0 {
		return errors.New("--wait must be longer than 0s")
	}
	return nil
}

func (c *doctorCommand) Run(ctx context.Context, out io.Writer) error {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // what goes wrong is a finding
	o := doctor.Options{
		Bus: c.Flags, Replicas: c.Replicas, DatabaseURL: c.DatabaseURL, Certificates: c.Certificates, Access: c.Access,
		Wait: c.Wait, Version: lifecycle.Version(),
	}
	for _, url := range c.URL {
		if url != "" {
			o.Edges = append(o.Edges, client.Options{URL: url, TLS: client.TLS{CA: c.CA}, Version: lifecycle.Version()})
		}
	}
	found := doctor.Examine(ctx, o)
	if err := c.show(out, found); err != nil {
		return err
	}
	if doctor.Worst(found) == doctor.Wrong {
		return lifecycle.ExitCode(1)
	}
	return nil
}

func (c *doctorCommand) show(out io.Writer, found []doctor.Finding) error {
	if c.JSON {
		return doctor.ShowJSON(out, found)
	}
	style := terminal.NewStyle(term.IsTerminal(int(os.Stdout.Fd())), os.Getenv)
	return doctor.Show(out, found, style, terminalWidth())
}
