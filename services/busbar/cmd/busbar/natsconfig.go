package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/busbar-mcp/busbar/libs/bus/permission"
	"github.com/busbar-mcp/busbar/libs/bus/secret"
	"github.com/busbar-mcp/busbar/libs/bus/storage"
	"github.com/busbar-mcp/busbar/libs/lifecycle"
	"github.com/busbar-mcp/busbar/services/busbar/internal/authority"
)

type natsConfigCommand struct {
	Services []string `required:"" placeholder:"NAME[:POWER+…],…" help:"Services of the bus, each with what it may do besides: calls, tasks, refresh, store, audit."`
	Dir      string   `default:"secrets" placeholder:"DIR" help:"Where the secrets are, one file for each user. Those that are there are kept (default ${default})."`
	TLS      []string `name:"tls" placeholder:"HOST,…" help:"Make certificates too, good for these names and addresses of the NATS servers: ca.pem, nats.pem and nats-key.pem in --dir. Those that are good for months to come are kept."`
	HandOut  string   `name:"hand-out" placeholder:"DIR" help:"Copy to DIR/USER what each program needs, its secret and ca.pem, and to DIR/nats what the servers need, users.conf among it; nothing is printed then. DIR/metrics and DIR/edge get a token for the metrics of edges. A container is given its own directory."`
	Renew    []string `placeholder:"USER,…" help:"Users that get a new secret: edge, operator or services. The one before stays good until its file USER.old is removed."`
}

// Help implements kong's HelpProvider.
func (natsConfigCommand) Help() string {
	return `Examples:
  busbar nats-config --services text,planning:calls,resource:store,audit:audit+store > nats-users.conf
  busbar nats-config --services text,planning:calls --dir /etc/busbar/secrets --renew text > nats-users.conf

  busbar nats-config --services text,audit:audit+store --dir /keys --tls nats-1,nats-2,nats-3 --hand-out /bus

Prints the part of the configuration of a NATS server that lets the edges, the
operators and each service do what they have to and nothing else, and writes the
secret of each into a file that only its owner reads. Give each program its own
with --nats-nkey.`
}

func (c *natsConfigCommand) Run(out io.Writer) error {
	users, err := readUsers(c.Services)
	if err == nil && c.HandOut != "" {
		err = ownDirectories(users)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "busbar: --services:", err)
		return lifecycle.ExitCode(2)
	}
	if err := authority.ValidHosts(c.TLS); err != nil {
		fmt.Fprintln(os.Stderr, "busbar: --tls:", err)
		return lifecycle.ExitCode(2)
	}
	config, err := permission.Issue(secret.Dir(c.Dir), users, c.Renew...)
	if err != nil {
		return fmt.Errorf("secrets of the bus in %s: %w", c.Dir, err)
	}
	config = fmt.Sprintf("# Users of a Busbar bus. Written by \"busbar nats-config\"; include it in the configuration of NATS.\n"+
		"# JetStream has to have %d MiB for what edges keep there: give it a disk, and a max_file_store, that is larger.\n%s", storage.Reserved()>>20, config)
	if len(c.TLS) > 0 {
		if err := authority.Issue(c.Dir, c.TLS); err != nil {
			return fmt.Errorf("certificates of the bus in %s: %w", c.Dir, err)
		}
	}
	if c.HandOut != "" {
		return c.handOut(users, config)
	}
	if _, err := io.WriteString(out, config); err != nil {
		return err
	}
	dir := secret.Dir(c.Dir)
	fmt.Fprintf(os.Stderr, "The secrets are in %s. Have the NATS server load what was printed (nats-server --signal reload, twice after a service was added), and start each program with its own:\n"+
		"  busbar edge --nats-nkey %s\n", c.Dir, dir.Path(permission.Edge))
	for _, u := range users {
		fmt.Fprintf(os.Stderr, "  service %s: --nats-nkey %s\n", u.Name, dir.Path(u.Name))
	}
	return nil
}

// handOut copies what is each program's into a directory of its own.
func (c *natsConfigCommand) handOut(users []permission.User, config string) error {
	give := func(to string, files ...string) error {
		dir := filepath.Join(c.HandOut, to)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		for _, name := range files {
			raw, err := os.ReadFile(filepath.Join(c.Dir, name))
			if err != nil {
				return err
			}
			if err := replace(filepath.Join(dir, name), raw, 0o600); err != nil {
				return err
			}
		}
		return nil
	}
	var public, servers []string
	if len(c.TLS) > 0 {
		public, servers = []string{authority.CA}, []string{authority.CA, authority.Cert, authority.Key}
	}
	names := []string{permission.Edge, permission.Operator}
	for _, u := range users {
		names = append(names, u.Name)
	}
	for _, name := range names {
		if err := give(name, append(slices.Clip(public), filepath.Base(secret.Dir(c.Dir).Path(name)))...); err != nil {
			return fmt.Errorf("hand out to %s: %w", name, err)
		}
	}
	if err := give(natsDir, servers...); err != nil {
		return fmt.Errorf("hand out to nats: %w", err)
	}
	if err := replace(filepath.Join(c.HandOut, natsDir, "users.conf"), []byte(config), 0o600); err != nil {
		return err
	}
	return c.handOutMetrics(slices.DeleteFunc(names, func(name string) bool { return name == permission.Operator }))
}

// metricsToken is the file with which Prometheus is let in by all programs.
const metricsToken = "metrics.token"

// handOutMetrics gives the programs and Prometheus, whose user is another, one token.
func (c *natsConfigCommand) handOutMetrics(programs []string) error {
	token, err := os.ReadFile(filepath.Join(c.Dir, metricsToken))
	if errors.Is(err, fs.ErrNotExist) {
		token = []byte(rand.Text())
		err = replace(filepath.Join(c.Dir, metricsToken), token, 0o600)
	}
	if err != nil {
		return err
	}
	theirs := filepath.Join(c.HandOut, metricsDir)
	if err := os.MkdirAll(theirs, 0o755); err != nil {
		return err
	}
	if err := replace(filepath.Join(theirs, metricsToken), token, 0o644); err != nil {
		return err
	}
	for _, name := range programs {
		if err := replace(filepath.Join(c.HandOut, name, metricsToken), token, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// replace writes a file as one step. The program that gets the directory may have put
// something into it, such as a link to somebody else's file: nothing is written through
// such a link. The new file keeps the owner and the group of the old one, if this user may give
// files away: the program that reads it can read the new one too.
func replace(path string, raw []byte, mode fs.FileMode) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(tmp.Name()) }()
	keepOwner(path, tmp)
	_, err = tmp.Write(raw)
	if err := errors.Join(err, tmp.Chmod(mode), tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}

// Directories for programs that are not users of the bus.
const (
	natsDir    = "nats"
	metricsDir = "metrics"
)

// ownDirectories reports a service that would be handed what is not its own, such as
// the key of the NATS servers.
func ownDirectories(users []permission.User) error {
	for _, u := range users {
		if u.Name == natsDir || u.Name == metricsDir {
			return fmt.Errorf("with --hand-out no service is called %q: that directory is for somebody else's files; give it another name", u.Name)
		}
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
