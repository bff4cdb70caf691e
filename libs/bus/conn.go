// Package bus is the protocol that services and edges speak over NATS: calls, the frames of their
// answers, deadlines, heartbeats, cancellation, draining, and buckets of keys. Its idea: an
// instance begins a call that may have an effect only with the caller's permit, so the caller
// always knows whether a lost call ran. Start reading at Caller.CallWith (call.go, then attempt.go,
// and internal/flow for what it decides) for the caller, and at Server.handle (server.go) for the
// instance. The packages
// below it are the registry of instances, tasks, the audit log, messages between edges, and the
// storage that edges create.
//
// Nothing else in Busbar touches NATS.
package bus

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"
	"go.opentelemetry.io/otel/trace"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus/internal/subject"
	"github.com/busbar-mcp/busbar/libs/bus/internal/wire"
	"github.com/busbar-mcp/busbar/libs/bus/secret"
)

// Config says how to join a bus. Only URL is required.
type Config struct {
	// URL of the NATS servers, comma-separated; may carry user:password or a
	// token, as nats:// URLs do.
	URL string
	// User is the name of the program's NATS user, which its inboxes contain: the service's name,
	// permission.Edge or permission.Operator. Empty for a bus without permissions.
	User string
	// Secret logs the user in, and seals requests or checks their seals; zero for a bus
	// that asks for nothing.
	Secret secret.Secret
	// Creds is a credentials file of NATS, which takes the place of Secret.Seed.
	Creds string
	// TLS has the trusted CAs and the client certificate; nil leaves TLS to the URL.
	TLS *tls.Config
	// Name shown in NATS monitoring, for example "text/K3J5".
	Name string
	// Logger defaults to slog.Default().
	Logger *slog.Logger
	// Now is the clock; time.Now by default.
	Now func() time.Time
	// EndRefused makes Connect fail on the first round in which every server is unreachable,
	// untrusted or rejects the user, instead of retrying until its context ends. Permissions that
	// the server denies later are logged when the connection is closed, unless Conn.Denied or Flush
	// returned them.
	EndRefused bool
	// Dialer replaces the network, for a server whose address may change.
	Dialer nats.CustomDialer
}

// Conn is a connection to the bus. It never buffers while disconnected: a
// call that cannot be sent now fails now, instead of running after its caller
// gave up. It reconnects for as long as it is open.
type Conn struct {
	nc     *nats.Conn
	js     jetstream.JetStream
	log    *slog.Logger
	closed chan struct{}
	// network dials the servers of nc; watching is closed when the goroutine that watches it has
	// ended.
	network  *network
	watching sync.WaitGroup

	// publishing is held while the connection is closed, and shared by PublishAsync.
	publishing sync.RWMutex

	now func() time.Time

	// tracer records the calls that are served here; nil records none.
	tracer trace.Tracer

	// malformed counts violations of the protocol by services.
	malformed atomic.Int64

	// lost is the time since which the connection is known to be lost; 0 while connected.
	lost   atomic.Int64
	gone   atomic.Int64 // see Gone
	server atomic.Pointer[server]

	// waited is set if a person is waiting for this command.
	waited bool

	// asksLeader is set if this user may ask the leader of a bucket.
	asksLeader bool

	// large holds a value for each result that is being sent in chunks, and so limits them.
	large chan struct{}

	// secret has the keys that requests are sealed with; sealers are by service.
	secret  secret.Secret
	sealers sync.Map

	// members are the instances that a registry on this connection knows.
	members members

	mu          sync.Mutex
	onReconnect map[*func()]struct{}
	denied      error
	told        bool // denials were reported
}

// The waits between rounds over all servers are short, because every second away is a second of
// refused calls. The first ones are shortest, for a server that restarts. They are random, so that
// a fleet does not reconnect at the same moment.
const (
	firstReconnectWait = 25 * time.Millisecond
	reconnectWait      = 400 * time.Millisecond
)

// reconnectAfter is the wait before the next round over all servers.
func reconnectAfter(tried int) time.Duration {
	most := min(firstReconnectWait<<min(tried, 10), reconnectWait)
	return most/2 + rand.N(most)
}

// Jitter spreads d by a fifth either way, so that a fleet does not act at the same moment.
func Jitter(d time.Duration) time.Duration { return wire.Jitter(d) }

// Connect joins the bus. It waits for the bus until ctx ends.
func Connect(ctx context.Context, cfg Config) (*Conn, error) {
	c := &Conn{log: cfg.Logger, waited: cfg.EndRefused, secret: cfg.Secret, asksLeader: cfg.User == "" || cfg.User == subject.Edge, closed: make(chan struct{}), network: &network{dialer: cfg.Dialer, begun: time.Now()}, large: make(chan struct{}, largeResults), onReconnect: map[*func()]struct{}{}}
	if c.log == nil {
		c.log = slog.Default()
	}
	if c.now = cfg.Now; c.now == nil {
		c.now = time.Now // fault:clock
	}
	c.nextServer(nil)
	connected := make(chan struct{}, 1)
	var waiting sync.Once
	opts := []nats.Option{
		nats.Name(cfg.Name),
		nats.MaxReconnects(-1),
		nats.CustomReconnectDelay(reconnectAfter),
		nats.ReconnectBufSize(-1),
		nats.RetryOnFailedConnect(!cfg.EndRefused),
		nats.IgnoreAuthErrorAbort(),
		nats.PingInterval(20 * time.Second), // for a single server; see watch
		nats.Timeout(dialTime),
		nats.SetCustomDialer(c.network),
		nats.ConnectHandler(func(*nats.Conn) { connected <- struct{}{} }),
		nats.ReconnectHandler(func(*nats.Conn) { c.reconnected() }),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) {
			waiting.Do(func() {
				if errors.Is(err, nats.ErrAuthorization) {
					err = cfg.notLetIn(err)
				}
				c.log.Warn("waiting for NATS", "name", cfg.Name, "error", err)
			})
		}),
		nats.DiscoveredServersHandler(func(*nats.Conn) { c.lookForOthers() }),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if c.network.hung.Swap(false) {
				err = errHung
			}
			c.nextServer(err)
			if err != nil {
				c.log.Warn("bus lost; reconnecting", "name", cfg.Name, "error", err)
			}
		}),
		nats.ClosedHandler(func(*nats.Conn) { close(c.closed) }),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) { c.asyncError(sub, err) }),
	}
	if cfg.Dialer == nil {
		c.network.dialer = &net.Dialer{Timeout: dialTime}
	}
	proof, err := cfg.proof()
	if err != nil {
		return nil, err
	}
	opts = append(opts, proof...)
	if err := checkURLs(cfg.URL); err != nil {
		return nil, err
	}
	nc, err := nats.Connect(cfg.URL, opts...)
	if err != nil {
		return nil, cfg.notJoined(err)
	}
	c.nc = nc
	if !nc.IsConnected() {
		select {
		case <-connected:
		case <-ctx.Done():
			reason := nc.LastError()
			c.Close()
			return nil, cfg.notJoined(errors.Join(ctx.Err(), reason))
		}
	}
	if c.js, err = jetstream.New(nc); err != nil {
		c.Close()
		return nil, fmt.Errorf("open JetStream: %w", err)
	}
	c.lookForOthers()
	c.watching.Go(c.watch)
	return c, nil
}

// notJoined is the error that says why the bus could not be joined, and what to do.
func (cfg Config) notJoined(reason error) error {
	var untrusted *tls.CertificateVerificationError
	switch {
	case errors.Is(reason, nats.ErrAuthorization):
		return cfg.notLetIn(reason)
	case errors.As(reason, &untrusted):
		return fmt.Errorf("NATS at %s shows a certificate that is not trusted here: name the authority that signed it with --nats-ca: %w", hosts(cfg.URL), reason)
	}
	return fmt.Errorf("NATS at %s does not answer; start it (\"busbar dev\" has one), or point --nats at it: %w", hosts(cfg.URL), reason)
}

// notLetIn is the error that says which secret is missing or wrong.
func (cfg Config) notLetIn(reason error) error {
	file := "its user"
	if cfg.User != "" {
		file += ", " + cfg.User + ".secret,"
	}
	return fmt.Errorf("NATS at %s does not let this program in: give it the secret of %s with --nats-nkey or --nats-creds, "+
		"which \"busbar nats-config\" makes (for \"busbar dev --data-dir DIR\" set BUSBAR_DATA_DIR=DIR): %w", hosts(cfg.URL), file, reason)
}

// proof returns the options that log the user in to NATS.
func (cfg Config) proof() (opts []nats.Option, err error) {
	if cfg.User != "" {
		if !subject.Token(cfg.User) {
			return nil, fmt.Errorf("user %.64q: no user of the bus has such a name", cfg.User)
		}
		opts = append(opts, nats.CustomInboxPrefix(subject.Inbox(cfg.User)))
	}
	if cfg.TLS != nil {
		opts = append(opts, nats.Secure(cfg.TLS))
	}
	switch {
	case cfg.Creds != "":
		opts = append(opts, nats.UserCredentials(cfg.Creds))
	case cfg.Secret.Seed != nil:
		user, err := nkeys.FromSeed(cfg.Secret.Seed)
		if err != nil {
			return nil, errors.New("the seed of the NATS user is damaged")
		}
		public, err := user.PublicKey()
		if err != nil {
			return nil, errors.New("the seed of the NATS user is damaged")
		}
		opts = append(opts, nats.Nkey(public, user.Sign))
	}
	return opts, nil
}

// serverURL reads the URL of a server, which may lack its scheme: foo is nats://foo.
func serverURL(raw string) (*url.URL, error) {
	raw = strings.TrimSpace(raw)
	if !strings.Contains(raw, "://") {
		raw = "nats://" + raw
	}
	return url.Parse(raw)
}

// hosts is a list of server URLs without credentials. Text that is not a URL is not
// shown: it may hold a password.
func hosts(urls string) string {
	list := strings.Split(urls, ",")
	for i, raw := range list {
		u, err := serverURL(raw)
		if err != nil || u.Host == "" {
			list[i] = "?"
			continue
		}
		list[i] = u.Scheme + "://" + u.Host
	}
	return strings.Join(list, ",")
}

// checkURLs refuses a text that is not a list of URLs, without showing it.
func checkURLs(urls string) error {
	for i, raw := range strings.Split(urls, ",") {
		if u, err := serverURL(raw); err != nil || u.Hostname() == "" || strings.Contains(u.Path+u.RawQuery+u.Fragment, "@") {
			return fmt.Errorf("URL %d of the NATS servers is malformed; it is not shown, as it may hold a password: "+
				"write nats://user:password@host:4222, with characters such as / # ? %% @ in the password percent-encoded", i+1)
		}
	}
	return nil
}

// Trace makes t record the calls that a service on this connection runs, if their callers record
// them too; nil records none. Call it before Serve.
func (c *Conn) Trace(t trace.Tracer) { c.tracer = t }

// Connected reports whether the bus can be reached now.
func (c *Conn) Connected() bool { return c.nc.IsConnected() }

// Clustered reports whether the connected server belongs to a cluster.
func (c *Conn) Clustered() bool { return c.Region() != "" }

// Region is the name of the connected NATS cluster; empty for a single server, and while
// disconnected.
func (c *Conn) Region() string { return c.nc.ConnectedClusterName() }

// URL is the URL of the connected server, without credentials.
func (c *Conn) URL() string { return hosts(c.nc.ConnectedUrl()) }

// Flush waits until the server has seen everything sent so far. It returns
// the first permission the server has denied this connection, which NATS
// reports only after the fact.
func (c *Conn) Flush(ctx context.Context) error {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
	}
	if err := c.nc.FlushWithContext(ctx); err != nil {
		return fmt.Errorf("flush the bus: %w", err)
	}
	return c.Denied()
}

// Denied is the first permission the server is known to have denied this connection.
func (c *Conn) Denied() error {
	// The handler of asynchronous errors may not have run yet.
	if err := c.nc.LastError(); errors.Is(err, nats.ErrPermissionViolation) {
		c.deny(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told = c.denied != nil
	return c.denied
}

// Close leaves the bus at once and waits until the connection's goroutines
// have ended. Drain servers and callers first.
func (c *Conn) Close() {
	c.publishing.Lock() // see PublishAsync
	c.nc.Close()
	c.publishing.Unlock()
	<-c.closed // all callbacks of NATS have run
	c.watching.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waited && c.denied != nil && !c.told {
		c.told = true
		c.log.Error("bus error", "error", c.denied)
	}
}

// OnReconnect calls f, in a goroutine of its own, after every reconnect. The
// returned function ends that.
func (c *Conn) OnReconnect(f func()) (stop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.onReconnect[&f] = struct{}{}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.onReconnect, &f)
	}
}

func (c *Conn) reconnected() {
	c.network.hung.Store(false) // leaving a hanging server on the way here was not a loss
	c.lost.Store(0)             // the next send may wait after another loss
	c.lookForOthers()
	c.log.Info("bus is back", "url", c.URL())
	c.mu.Lock()
	defer c.mu.Unlock()
	for f := range c.onReconnect {
		go (*f)()
	}
}

func (c *Conn) asyncError(sub *nats.Subscription, err error) {
	at := ""
	if sub != nil {
		at = sub.Subject
	}
	denied := errors.Is(err, nats.ErrPermissionViolation)
	if denied {
		c.deny(err)
	}
	if !denied || !c.waited {
		c.log.Error("bus error", "subject", at, "error", err)
	}
}

// deny records the first permission that was missing.
func (c *Conn) deny(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.denied == nil {
		c.denied = fmt.Errorf("NATS denies this user what it needs: %w", err)
	}
}

// The rest is for the packages below this one: nothing else touches NATS.

// NATS is the connection itself.
func (c *Conn) NATS() *nats.Conn { return c.nc }

// JetStream is the JetStream interface of the connection.
func (c *Conn) JetStream() jetstream.JetStream { return c.js }

// Pull subscribes to a durable consumer that another process creates. It does not request the
// consumer's configuration, which a service may not read.
func (c *Conn) Pull(stream, consumer string) (*nats.Subscription, error) {
	js, err := c.nc.JetStream()
	if err != nil {
		return nil, err
	}
	return js.PullSubscribe("", consumer, nats.Bind(stream, consumer), nats.SkipConsumerLookup())
}

// Log is the logger of the connection.
func (c *Conn) Log() *slog.Logger { return c.log }

// Now is the time by the connection's clock.
func (c *Conn) Now() time.Time { return c.now() }

// Closed is closed with the connection.
func (c *Conn) Closed() <-chan struct{} { return c.closed }

// Cancel tells the instances of a service that a call or a task is no longer wanted.
func (c *Conn) Cancel(service, id, reason string) { c.cancelAt(subject.Cancel(service), id, reason) }

func (c *Conn) cancelAt(at, id, reason string) {
	if err := c.Publish(at, &busv1.Cancel{Id: id, Reason: reason}); err != nil {
		c.log.Debug("cancel not sent", "subject", at, "id", id, "error", err)
	}
}

// Malformed counts the frames and records of services that broke the protocol.
func (c *Conn) Malformed() int64 { return c.malformed.Load() }

// CountMalformed counts one more.
func (c *Conn) CountMalformed() { c.malformed.Add(1) }
