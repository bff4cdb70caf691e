package fleet

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/compose-spec/compose-go/v2/types"
	"github.com/jackc/pgx/v5"
)

// isDatabase reports whether a part is PostgreSQL. Its image makes the data directory and the first
// database by itself.
func isDatabase(part types.ServiceConfig) bool { return strings.HasPrefix(part.Image, "postgres:") }

// endSignal stops a part; PostgreSQL does not wait for its clients then.
func endSignal(part types.ServiceConfig) syscall.Signal {
	if isDatabase(part) {
		return syscall.SIGINT
	}
	return syscall.SIGTERM
}

// binaries is where initdb and postgres are: Debian has them outside of the path.
func binaries() (string, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	slices.Sort(found)
	if len(found) > 0 {
		return filepath.Dir(found[len(found)-1]), nil
	}
	path, err := exec.LookPath("postgres")
	if err != nil {
		return "", fmt.Errorf("PostgreSQL is not on this machine; install it (on Debian: postgresql)")
	}
	return filepath.Dir(path), nil
}

func (f *Fleet) data(part types.ServiceConfig) string {
	return filepath.Join(f.place.dir, "volumes", part.Volumes[0].Source)
}

func (f *Fleet) databaseCommand(part types.ServiceConfig) ([]string, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	return []string{
		filepath.Join(bin, "postgres"), "-D", f.data(part), "-h", f.place.address(part), "-p", part.Expose[0], "-k", "", "-c", "max_connections=200",
	}, nil
}

// prepareDatabase makes the data directory, and makes the server run as a user that may run it.
func (f *Fleet) prepareDatabase(ctx context.Context, part types.ServiceConfig, c *exec.Cmd) error {
	dir := f.data(part)
	if os.Geteuid() == 0 {
		as, err := other()
		if err != nil {
			return err
		}
		if c.SysProcAttr.Credential = as; c.Dir != dir {
			if err := os.Chown(dir, int(as.Uid), int(as.Gid)); err != nil {
				return err
			}
		}
	}
	c.Dir = dir
	if _, err := os.Stat(filepath.Join(dir, "PG_VERSION")); err == nil {
		return nil
	}
	password, err := os.CreateTemp("", "fleet-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(password.Name()) }()
	_, err = password.WriteString(setting(part, "POSTGRES_PASSWORD") + "\n")
	if as := c.SysProcAttr.Credential; as != nil && err == nil {
		err = password.Chown(int(as.Uid), int(as.Gid))
	}
	if err != nil {
		return err
	}
	_ = password.Close()
	bin := filepath.Dir(c.Path)
	make := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "-D", dir, "-U", setting(part, "POSTGRES_USER"), "-A", "scram-sha-256", "--pwfile", password.Name(), "-E", "UTF8", "--no-locale")
	make.Dir, make.SysProcAttr = dir, &syscall.SysProcAttr{Credential: c.SysProcAttr.Credential}
	if out, err := make.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return nil
}

// createDatabase makes the database that is called as its user is.
func (f *Fleet) createDatabase(ctx context.Context, part types.ServiceConfig) error {
	name := setting(part, "POSTGRES_USER")
	config, err := pgx.ParseConfig(fmt.Sprintf("host=%s port=%s user=%s dbname=postgres sslmode=disable", f.place.address(part), part.Expose[0], name))
	if err != nil {
		return err
	}
	config.Password = setting(part, "POSTGRES_PASSWORD")
	conn, err := connect(ctx, config)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	var there bool
	if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", name).Scan(&there); err != nil || there {
		return err
	}
	_, err = conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize())
	return err
}

// connect waits until the server, which may be recovering, takes a connection.
func connect(ctx context.Context, config *pgx.ConnConfig) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, listenTime)
	defer cancel()
	for {
		conn, err := pgx.ConnectConfig(ctx, config)
		if err == nil {
			return conn, nil
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(askEvery):
		}
	}
}

func setting(part types.ServiceConfig, name string) string {
	if v := part.Environment[name]; v != nil {
		return *v
	}
	return ""
}

// other is the user that PostgreSQL runs as where this program is root's.
func other() (*syscall.Credential, error) {
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			continue
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		if err != nil {
			continue
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, fmt.Errorf("PostgreSQL does not run as root, and there is no user postgres or nobody")
}

// orphans reports whether a part is PostgreSQL and still has processes in its directory.
func (f *Fleet) orphans(name string) bool {
	part, err := f.part(name)
	if err != nil || !isDatabase(part) {
		return false
	}
	data := f.data(part)
	all, _ := filepath.Glob("/proc/[0-9]*/cwd")
	return slices.ContainsFunc(all, func(cwd string) bool {
		at, err := os.Readlink(cwd)
		return err == nil && at == data
	})
}
