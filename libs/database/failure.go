package database

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	driver "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"

	"github.com/busbar-mcp/busbar/libs/fault"
)

var errRolledBack = errors.New("the transaction was rolled back")

// doubt marks a commit whose outcome is unknown.
type doubt struct{ error }

func (d doubt) Unwrap() error { return d.error }

// severity returns an error's severity, in English whatever language the server uses.
func severity(said *pgconn.PgError) string { return cmp.Or(said.SeverityUnlocalized, said.Severity) }

func inDoubt(err error) error {
	var said *pgconn.PgError
	if err == nil || errors.As(err, &said) && severity(said) == "ERROR" {
		return err
	}
	return doubt{err}
}

// fail turns an error of Postgres into an error of Database.
func (c *Config) fail(ctx context.Context, err error) error {
	var known *fault.Error
	var said *pgconn.PgError
	switch {
	case err == nil || errors.As(err, &known):
		return err
	case errors.As(err, new(doubt)):
		return c.unanswered(err)
	case ctx.Err() != nil:
		return err
	case !errors.As(err, &said) && !connection(err) && !errors.Is(err, context.DeadlineExceeded):
		return err // not the database's
	case said == nil || temporary(said.Code):
		return c.unavailable(retryAfter, err)
	case within(said.Code, "22", "23", "54"):
		// Data exceptions, violated constraints, and limits such as the size of an index entry.
		return fmt.Errorf("%w: %w", ErrRejected, err)
	}
	return err // a defect
}

// unavailable is the fault for a client.
func (c *Config) unavailable(wait time.Duration, err error) *fault.Error {
	f := fault.New(fault.Unavailable, "the database of %s does not answer; try again shortly", c.Holds).Because(err)
	if full(err) {
		f = fault.New(fault.Unavailable, "the disk of the database of %s is full, and nothing was changed; when whoever runs it has made room there it goes on by itself", c.Holds).Because(err)
	}
	f.RetryAfter = wait
	return f
}

// full reports whether there was no room on the disk.
func full(err error) bool {
	var server *pgconn.PgError
	var file *driver.Error
	return errors.As(err, &server) && server.Code == "53100" || errors.As(err, &file) && file.Code()&0xff == codes.SQLITE_FULL
}

// unanswered is the fault for a client after a commit without an answer.
func (c *Config) unanswered(err error) *fault.Error {
	f := fault.New(fault.Unavailable, "the database of %s was lost while the change was being made; whether it was made is not known: look before you repeat it, or repeat it with its idempotency key", c.Holds).Because(err)
	f.RetryAfter = retryAfter
	return f.Ran(fault.Unknown)
}

// within reports whether a SQLSTATE belongs to one of these classes.
func within(code string, classes ...string) bool {
	for _, class := range classes {
		if strings.HasPrefix(code, class) {
			return true
		}
	}
	return false
}

// temporary reports whether a SQLSTATE says something about the server and not
// about the statement: connections, transactions that lost, resources,
// operators, the system, and a server that is read-only.
func temporary(code string) bool { return within(code, "08", "25", "40", "53", "55", "57", "58") }

// refused reports whether a connection fails for a reason that waiting does not resolve: a wrong
// password, an unknown role or database, or an untrusted certificate.
func refused(err error) bool {
	var said *pgconn.PgError
	if errors.As(err, &said) {
		return within(said.Code, "28") || said.Code == "3D000" || said.Code == "42501"
	}
	// sslmode=verify-ca is checked outside of crypto/tls, which names what it finds.
	return errors.As(err, new(*tls.CertificateVerificationError)) || errors.As(err, new(x509.UnknownAuthorityError)) || errors.As(err, new(x509.CertificateInvalidError))
}

// repeatable reports whether a transaction had no effect but may succeed in another attempt:
// serialization failures, deadlocks, locks not had in time.
func repeatable(err error) bool {
	var said *pgconn.PgError
	if errors.As(err, new(doubt)) || !errors.As(err, &said) {
		return false
	}
	return said.Code == "40001" || said.Code == "40P01" || said.Code == "55P03"
}

// lost reports whether the connection was lost, rather than the call refused by the server.
func lost(err error) bool {
	var said *pgconn.PgError
	if errors.As(err, &said) {
		return severity(said) == "FATAL"
	}
	return err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) && connection(err)
}

// connection reports whether an error is about a connection.
func connection(err error) bool {
	var network net.Error
	var refused *pgconn.ConnectError
	return errors.As(err, &network) || errors.As(err, &refused) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, errRolledBack) || errors.Is(err, errClosed) || pgconn.SafeToRetry(err)
}

// pause waits some milliseconds, longer each time; false when ctx ended.
func pause(ctx context.Context, try int) bool {
	select {
	case <-time.After(time.Duration(try) * time.Duration(5+rand.IntN(20)) * time.Millisecond):
		return true
	case <-ctx.Done():
		return false
	}
}

func hasParameter(rawURL, name string) bool {
	u, err := url.Parse(rawURL)
	return err == nil && u.Query().Has(name)
}

// brief removes repetitions from an error of pgx, which tries to connect with TLS and without and
// reports both.
type brief struct{ error }

func (b brief) Unwrap() error { return b.error }

func (b brief) Error() string {
	var failed *pgconn.ConnectError
	if !errors.As(b.error, &failed) {
		return b.error.Error()
	}
	return strings.Join(slices.Compact(strings.Split(failed.Unwrap().Error(), "\n")), "; ")
}
