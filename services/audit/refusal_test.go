package audit_test

import (
	"log/slog"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/database/databasetest"
)

// TestDatabaseRefuses: while Postgres runs and does not write, the log says so, events
// wait, and none is put aside. All are written when it is over.
func TestDatabaseRefuses(t *testing.T) {
	t.Parallel()
	statement := func(text string) func(*testing.T, *databasetest.Server) {
		return func(t *testing.T, s *databasetest.Server) {
			conn, err := pgx.Connect(t.Context(), s.URL())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(t.Context())
			if _, err := conn.Exec(t.Context(), text); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		begin, end func(*testing.T, *databasetest.Server)
	}{
		"it hangs": {
			func(_ *testing.T, s *databasetest.Server) { s.Freeze() },
			func(_ *testing.T, s *databasetest.Server) { s.Thaw() },
		},
		"INSERT is revoked": {statement("REVOKE INSERT ON audit_event FROM busbar"), statement("GRANT INSERT ON audit_event TO busbar")},
		"it is read-only": {
			statement("ALTER ROLE busbar SET default_transaction_read_only = on; SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'busbar'"),
			statement("ALTER ROLE busbar RESET default_transaction_read_only; SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'busbar'"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, server, said := newWorld(t), databasetest.Own(t), &bustest.Log{}
			statement("CREATE ROLE busbar LOGIN; GRANT ALL ON SCHEMA public TO busbar")(t, server)
			u, err := url.Parse(server.URL())
			if err != nil {
				t.Fatal(err)
			}
			u.User = url.User("busbar")
			cfg := env(t, u.String())
			cfg.Log = slog.New(slog.NewTextHandler(said, nil))
			w.serve(t, cfg)
			w.send(t, "a", 300)
			w.settled(t)
			c.begin(t, server)
			w.send(t, "a", 300)
			bustest.Eventually(t, "the log says so", func() bool { return strings.Contains(said.String(), "the audit database cannot be written") })
			w.send(t, "b", 300)
			c.end(t, server)
			w.settled(t)
			if dead, err := stream(t, w.url).Stream(t.Context(), "DLQ"); err != nil || dead.CachedInfo().State.Msgs != 0 {
				t.Errorf("events were put aside: %v", err)
			}
		})
	}
}
