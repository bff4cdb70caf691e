package bustest

import (
	"context"
	"log/slog"
	"testing"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/permission"
	"github.com/busbar-mcp/busbar/libs/bus/secret"
)

// Fleet is a bus on which each program is a user of its own, with only the permissions that it
// needs.
type Fleet struct {
	URL string
	// Dir has the secrets of the users.
	Dir secret.Dir
}

// NewFleet starts a NATS server for edges, operators and services.
func NewFleet(t testing.TB, services ...permission.User) *Fleet {
	t.Helper()
	f := &Fleet{Dir: secret.Dir(t.TempDir())}
	users, err := permission.Issue(f.Dir, services)
	if err != nil {
		t.Fatalf("users of NATS: %v", err)
	}
	f.URL = Start(t, Config{Conf: users}).URL
	return f
}

// Of returns the user of a service.
func Of(t testing.TB, service string, powers ...permission.Power) permission.User {
	t.Helper()
	u, err := permission.Of(service, powers...)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// Config joins the bus as a user, or as the developer's service of that name.
func (f *Fleet) Config(t testing.TB, user string) bus.Config {
	t.Helper()
	s, err := f.Dir.Read(user)
	if err != nil {
		s, err = f.Dir.Read(permission.Developer)
	}
	if err != nil {
		t.Fatal(err)
	}
	return bus.Config{URL: f.URL, User: user, Secret: s, Name: t.Name(), Logger: Logger(t)}
}

// Join joins the bus as a user for the length of the test. log may be nil.
func (f *Fleet) Join(t testing.TB, user string, log *slog.Logger) *bus.Conn {
	t.Helper()
	cfg := f.Config(t, user)
	if log != nil {
		cfg.Logger = log
	}
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	conn, err := bus.Connect(ctx, cfg)
	if err != nil {
		t.Fatalf("join the bus as %s: %v", user, err)
	}
	t.Cleanup(conn.Close)
	return conn
}
