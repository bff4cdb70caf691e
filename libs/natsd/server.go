// Package natsd runs a NATS server with JetStream inside a process, for development, small installs
// and tests. It holds an exclusive lock on its data directory: two servers on one store would
// silently lose acknowledged data. Start reading at Start.
package natsd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofrs/flock"
	"github.com/nats-io/nats-server/v2/server"
)

// Config configures the server. DataDir is required.
type Config struct {
	// Listen is the host:port for NATS clients. Empty or port 0: a free port
	// on loopback.
	Listen string
	// DataDir holds the JetStream store and the lock.
	DataDir string
	// Users is the part of a NATS configuration with users and permissions, as permission.Config
	// writes it. Empty: every client may do everything.
	Users string
	// Logger defaults to slog.Default().
	Logger *slog.Logger
	// Relaxed leaves syncing to the operating system, for tests.
	Relaxed bool
}

// Server is a running NATS server. If its disk was full, it continues once there is room.
type Server struct {
	cfg  Config
	lock *flock.Flock
	url  string
	ns   *server.Server // from run, until stopped
	full *atomic.Bool   // set if ns could not write
	stop context.CancelFunc
	done chan struct{}
}

// ErrInUse means that another process uses the data directory.
var ErrInUse = errors.New("data directory is in use by another process")

// Start locks the data directory and runs a server in it. It returns ErrInUse if the directory is
// in use, and an error wrapping syscall.EADDRINUSE if the address is.
func Start(cfg Config) (*Server, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	lock := flock.New(filepath.Join(cfg.DataDir, "lock"))
	held, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock data directory: %w", err)
	}
	if !held {
		return nil, fmt.Errorf("%s: %w", cfg.DataDir, ErrInUse)
	}
	full := &atomic.Bool{}
	ns, err := run(cfg, full)
	if err != nil {
		_ = lock.Unlock()
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &Server{cfg: cfg, lock: lock, url: "nats://" + ns.Addr().String(), ns: ns, full: full, stop: stop, done: make(chan struct{})}
	s.cfg.Listen = ns.Addr().String()
	go s.mend(ctx)
	return s, nil
}

// run starts a server, which sets full if it cannot write.
func run(cfg Config, full *atomic.Bool) (*server.Server, error) {
	host, port, err := splitListen(cfg.Listen)
	if err != nil {
		return nil, err
	}
	if port > 0 {
		// The server only logs that its port is taken; find out beforehand.
		l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err != nil {
			return nil, fmt.Errorf("NATS listener: %w", err)
		}
		_ = l.Close()
	} else {
		port = server.RANDOM_PORT
	}
	options := &server.Options{
		ServerName: "busbar", Host: host, Port: port,
		NoSigs: true, NoLog: false,
		JetStream: true, StoreDir: filepath.Join(cfg.DataDir, "nats"),
		JetStreamMaxMemory: 64 << 20, JetStreamMaxStore: 8 << 30,
		SyncAlways: !cfg.Relaxed, MaxPayload: 1 << 20,
		WriteDeadline: 10 * time.Second, DisableShortFirstPing: true,
	}
	if cfg.Users != "" {
		if err := options.ProcessConfigString(cfg.Users); err != nil {
			return nil, fmt.Errorf("users of NATS: %w", err)
		}
	}
	ns, err := server.NewServer(options)
	if err != nil {
		return nil, fmt.Errorf("configure NATS: %w", err)
	}
	ns.SetLoggerV2(logger{cfg.Logger, full, &refusals{}}, false, false, false)
	// Start returns once the store is read and the listener is open or has failed. Called earlier,
	// ReadyForConnections would sleep between its checks.
	ns.Start()
	if !ns.ReadyForConnections(time.Second) {
		ns.Shutdown()
		ns.WaitForShutdown()
		return nil, errors.New("NATS did not start; its log lines say why")
	}
	if !ns.JetStreamEnabled() {
		ns.Shutdown()
		ns.WaitForShutdown()
		return nil, errors.New("JetStream did not start; is the data directory writable?")
	}
	return ns, nil
}

func splitListen(listen string) (host string, port int, err error) {
	if listen == "" {
		return "127.0.0.1", 0, nil
	}
	host, p, err := net.SplitHostPort(listen)
	if err != nil {
		return "", 0, fmt.Errorf("NATS listener: %w", err)
	}
	if port, err = strconv.Atoi(p); err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("NATS listener: %q is not a port", p)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return host, port, nil
}

// URL is the URL for clients.
func (s *Server) URL() string { return s.url }

// Stop shuts the server down and releases the data directory. Close the
// connections to it first.
func (s *Server) Stop() {
	s.stop()
	<-s.done
	s.ns.Shutdown()
	s.ns.WaitForShutdown()
	_ = s.lock.Unlock()
}

// logger gives the server's log lines to slog.
type logger struct {
	log     *slog.Logger
	full    *atomic.Bool
	refused *refusals
}

// refusedEvery is how often refused logins are logged: a program without its secret tries
// again several times a second, for as long as it runs.
const refusedEvery = time.Minute

// refusals counts the refused logins since the last log line.
type refusals struct {
	mu     sync.Mutex
	logged time.Time
	since  int
}

// note counts a refused login. It returns how many there were if it is time to log them.
func (r *refusals) note() (n int, log bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.since++
	if time.Since(r.logged) < refusedEvery {
		return 0, false
	}
	n, r.since, r.logged = r.since, 0, time.Now()
	return n, true
}

func (l logger) Noticef(f string, v ...any) { l.log.Debug("nats: " + fmt.Sprintf(f, v...)) }
func (l logger) Warnf(f string, v ...any)   { l.log.Warn("nats: " + fmt.Sprintf(f, v...)) }
func (l logger) Fatalf(f string, v ...any)  { l.log.Error("nats: " + fmt.Sprintf(f, v...)) }
func (l logger) Debugf(f string, v ...any)  {}
func (l logger) Tracef(f string, v ...any)  {}

// The server also calls Errorf if a store could not be written.
func (l logger) Errorf(f string, v ...any) {
	for _, arg := range v {
		if err, ok := arg.(error); ok && full(err) {
			l.full.Store(true)
		}
	}
	text := fmt.Sprintf(f, v...)
	if !strings.Contains(text, server.ErrAuthentication.Error()) {
		l.log.Error("nats: " + text)
		return
	}
	if n, log := l.refused.note(); log {
		l.log.Warn("NATS refuses a program that shows no secret of a user, or a wrong one; start it with --nats-nkey and the secret of its user",
			"connection", text, "refused", n, "quiet", refusedEvery)
	}
}
