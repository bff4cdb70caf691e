package database_test

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/certtest"
	"github.com/busbar-mcp/busbar/libs/database"
	"github.com/busbar-mcp/busbar/libs/database/databasetest"
)

// Encryption and the password of a Postgres connection are configured as in libpq, and an error
// that waiting does not resolve is returned immediately. Not parallel: PGPASSFILE applies to the
// whole process.
func TestPostgresTLS(t *testing.T) {
	server, ca, others := databasetest.Own(t), certtest.New(t), certtest.New(t)
	p := ca.Issue(t, "db.example", time.Hour)
	server.Encrypt(t, p.Cert, p.Key)
	work := func(address string) error {
		db, err := database.Open(t.Context(), database.Config{URL: address, Owner: "test", Holds: "things", Wait: patient, Work: patient})
		if err != nil {
			return err
		}
		defer db.Close()
		return db.Read(t.Context(), func(ctx context.Context, tx database.Tx) error {
			rows, err := tx.Query(ctx, "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
			if err != nil {
				return err
			}
			defer rows.Close()
			var encrypted bool
			if !rows.Next() || rows.Scan(&encrypted) != nil || !encrypted {
				return errors.New("it is not encrypted")
			}
			return rows.Err()
		})
	}
	admin, err := database.Open(t.Context(), database.Config{URL: server.URL(), Owner: "test", Holds: "things"})
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	if err := admin.Write(t.Context(), func(ctx context.Context, tx database.Tx) error {
		_, err := tx.Exec(ctx, "CREATE ROLE app LOGIN PASSWORD 's3cret'")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	plain, err := url.Parse(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	passwords := filepath.Join(t.TempDir(), "pgpass")
	if err := os.WriteFile(passwords, []byte("*:"+plain.Port()+":*:app:s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	// The test must not use the passwords of the user that runs it.
	nowhere := filepath.Join(t.TempDir(), "none")
	t.Setenv("PGPASSWORD", "")
	for name, c := range map[string]struct {
		host, mode, ca, passwords, password string
		says                                string // "" is success
	}{
		"verified, with a file of passwords": {"127.0.0.1", "verify-full", ca.File, passwords, "", ""},
		"verified by name":                   {"localhost", "verify-full", ca.File, passwords, "", ""},
		"verified, with the password":        {"127.0.0.1", "verify-full", ca.File, nowhere, "s3cret", ""},
		"another authority":                  {"127.0.0.1", "verify-full", others.File, passwords, "", "certificate"},
		"another authority, of any name":     {"127.0.0.1", "verify-ca", others.File, passwords, "", "certificate"},
		"another name":                       {"0.0.0.0", "verify-full", ca.File, passwords, "", "certificate"},
		"not encrypted":                      {"127.0.0.1", "disable", "", passwords, "", "no encryption"},
		"without a password":                 {"127.0.0.1", "verify-full", ca.File, nowhere, "", "password"},
		"another password":                   {"127.0.0.1", "verify-full", ca.File, nowhere, "another", "password"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("PGPASSFILE", c.passwords)
			u := url.URL{Scheme: "postgres", User: url.User("app"), Host: c.host + ":" + plain.Port(), Path: "/postgres"}
			if c.password != "" {
				u.User = url.UserPassword("app", c.password)
			}
			q := url.Values{"sslmode": {c.mode}}
			if c.ca != "" {
				q.Set("sslrootcert", c.ca)
			}
			u.RawQuery = q.Encode()
			err := work(u.String())
			if (err == nil) != (c.says == "") || err != nil && (!strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "s3cret")) {
				t.Errorf("%v, want %q", err, c.says)
			}
		})
	}
}
