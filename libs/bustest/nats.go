package bustest

import (
	"io"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/bustest/beside"
)

// Config has the settings of a server. The zero value is a server at a free port, with a directory
// of its own.
type Config struct {
	Listen, DataDir string
	// Conf is configuration in NATS's own format, such as the users of permission.Config.
	Conf string
	// Synced makes the server sync each write to the disk before it acknowledges it, as in
	// production.
	Synced bool
}

// NATS is a server, as busbar dev runs it, that a test can stop and restart.
type NATS struct {
	URL string

	t      testing.TB
	config Config
	server *beside.Server // nil when it does not run
}

// Start starts a server for the test.
func Start(t testing.TB, c Config) *NATS {
	t.Helper()
	n := &NATS{t: t, config: c}
	if c.DataDir == "" {
		n.Lose()
	}
	if err := n.begin(); err != nil {
		t.Fatalf("start NATS: %v", err)
	}
	n.URL = n.server.URL
	n.config.Listen = strings.TrimPrefix(n.URL, "nats://")
	t.Cleanup(n.Stop)
	return n
}

func (n *NATS) begin() (err error) {
	n.server, err = beside.Start(beside.Config(n.config), serverLog())
	return err
}

// Stop stops the server.
func (n *NATS) Stop() {
	n.t.Helper()
	if n.server == nil {
		return
	}
	if err := n.server.Stop(); err != nil {
		n.t.Errorf("stop NATS: %v", err)
	}
	n.server = nil
}

// Lose makes a stopped server come back without its data.
func (n *NATS) Lose() { n.config.DataDir = n.t.TempDir() }

// Restart starts a server that was stopped, at the same address.
func (n *NATS) Restart() {
	n.t.Helper()
	Eventually(n.t, "NATS starts again at "+n.URL, func() bool { return n.begin() == nil })
}

// serverLog is the log of servers: a shared server belongs to no single test.
func serverLog() io.Writer {
	if testing.Verbose() {
		return os.Stderr
	}
	return nil
}

// User is a NATS user and its permissions. Without any, it may do everything.
type User struct {
	Name               string
	Publish, Subscribe []string
}

// ServerFor starts a NATS server with only these users, and returns the URL of each by name.
func ServerFor(t testing.TB, users ...User) map[string]string {
	t.Helper()
	var conf strings.Builder
	conf.WriteString("authorization { users: [\n")
	for _, u := range users {
		conf.WriteString("{ user: " + u.Name + ", password: x")
		if len(u.Publish)+len(u.Subscribe) > 0 {
			conf.WriteString(", permissions: { publish: { allow: " + list(u.Publish) + " }, subscribe: { allow: " + list(u.Subscribe) + " } }")
		}
		conf.WriteString(" }\n")
	}
	conf.WriteString("] }\n")
	host := strings.TrimPrefix(Start(t, Config{Conf: conf.String()}).URL, "nats://")
	urls := map[string]string{}
	for _, u := range users {
		urls[u.Name] = (&url.URL{Scheme: "nats", Host: host, User: url.UserPassword(u.Name, "x")}).String()
	}
	return urls
}

// list is an array of NATS's configuration.
func list(subjects []string) string {
	return `["` + strings.Join(subjects, `", "`) + `"]`
}
