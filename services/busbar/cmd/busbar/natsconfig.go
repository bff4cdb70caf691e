package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/busbar-mcp/busbar/libs/bus/permission"
	"github.com/busbar-mcp/busbar/libs/bus/secret"
	"github.com/busbar-mcp/busbar/libs/bus/storage"
	"github.com/busbar-mcp/busbar/libs/lifecycle"
)

type natsConfigCommand struct {
	Services []string `required:"" placeholder:"NAME[:POWER+…],…" help:"Services of the bus, each with what it may do besides: calls, tasks, refresh, store, audit."`
	Dir      string   `default:"secrets" placeholder:"DIR" help:"Where the secrets are, one file for each user. Those that are there are kept (default ${default})."`
	Renew    []string `placeholder:"USER,…" help:"Users that get a new secret: edge, operator or services. The one before stays good until its file USER.old is removed."`
}

// Help implements kong's HelpProvider.
func (natsConfigCommand) Help() string {
	return `Examples:
  busbar nats-config --services text,planning:calls,resource:store,audit:audit+store > nats-users.conf
  busbar nats-config --services text,planning:calls --dir /etc/busbar/secrets --renew text > nats-users.conf

Prints the part of the configuration of a NATS server that lets the edges, the
operators and each service do what they have to and nothing else, and writes the
secret of each into a file that only its owner reads. Give each program its own
with --nats-nkey.`
}

func (c *natsConfigCommand) Run(out io.Writer) error {
	users, err := readUsers(c.Services)
	if err != nil {
		fmt.Fprintln(os.Stderr, "busbar: --services:", err)
		return lifecycle.ExitCode(2)
	}
	config, err := permission.Issue(secret.Dir(c.Dir), users, c.Renew...)
	if err != nil {
		return fmt.Errorf("secrets of the bus in %s: %w", c.Dir, err)
	}
	if _, err := fmt.Fprintf(out, "# Users of a Busbar bus. Written by \"busbar nats-config\"; include it in the configuration of NATS.\n"+
		"# JetStream has to have %d MiB for what edges keep there: give it a disk, and a max_file_store, that is larger.\n%s", storage.Reserved()>>20, config); err != nil {
		return err
	}
	dir := secret.Dir(c.Dir)
	fmt.Fprintf(os.Stderr, "The secrets are in %s. Have the NATS server load what was printed (nats-server --signal reload), and start each program with its own:\n"+
		"  busbar edge --nats-nkey %s\n", c.Dir, dir.Path(permission.Edge))
	for _, u := range users {
		fmt.Fprintf(os.Stderr, "  service %s: --nats-nkey %s\n", u.Name, dir.Path(u.Name))
	}
	return nil
}

// readUsers reads services, each with its powers.
func readUsers(services []string) (users []permission.User, err error) {
	seen := map[string]bool{}
	for _, one := range services {
		name, more, _ := strings.Cut(one, ":")
		var powers []permission.Power
		for _, p := range strings.Split(more, "+") {
			if p != "" {
				powers = append(powers, permission.Power(p))
			}
		}
		u, err := permission.Of(name, powers...)
		if err != nil {
			return nil, err
		}
		if seen[name] {
			return nil, fmt.Errorf("service %s is there twice", name)
		}
		seen[name] = true
		users = append(users, u)
	}
	if len(users) == 0 {
		return nil, errors.New("name at least one service")
	}
	return users, nil
}
