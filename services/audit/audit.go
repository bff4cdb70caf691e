// Package audit is the service that keeps the audit trail: it takes what edges
// record from the bus, writes it to a database, signs where the trail has come
// to, and answers questions about it. It offers nothing to MCP clients.
package audit

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/auditlog"
	"github.com/busbar-mcp/busbar/libs/bus/registry"
	"github.com/busbar-mcp/busbar/libs/database"
	"github.com/busbar-mcp/busbar/libs/lifecycle"
	"github.com/busbar-mcp/busbar/services/audit/internal/table"
	"github.com/busbar-mcp/busbar/services/audit/trail"
)

// Name is the service's name on the bus.
const Name = "audit"

// Defaults.
const (
	DefaultRetention  = 90 * 24 * time.Hour
	DefaultCheckpoint = time.Minute
	pruneEvery        = time.Hour
)

// Config says where the trail is kept. DatabaseURL or DataDir is required.
type Config struct {
	// DatabaseURL is one of Postgres. Empty: a file in DataDir, which one
	// instance at a time may use.
	DatabaseURL string
	// DataDir holds audit.db and audit.key.
	DataDir string
	// Key signs checkpoints. Nil: the one in DataDir, made when there is none.
	// Each instance may have its own.
	Key ed25519.PrivateKey
	// Retention is how long rows are kept. Zero is DefaultRetention, less is for
	// ever.
	Retention time.Duration
	// Checkpoint is how often the ends of chains are signed: what an intruder does
	// to rows that are younger is not found. Zero is DefaultCheckpoint.
	Checkpoint time.Duration
	// AckWait is how long after the death of an instance another one takes what it
	// had; zero is 30 s.
	AckWait time.Duration
	// Version is the service's SemVer.
	Version string
	Logger  *slog.Logger
}

// Service keeps the trail. It is not on the bus yet; see Start.
type Service struct {
	cfg   Config
	store trail.Store
	// storeID names the database: all instances work on the same one.
	storeID string
}

// New opens the database, waiting for it until ctx ends, and brings its schema up
// to date. Close the service when done with it.
func New(ctx context.Context, cfg Config) (*Service, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Retention == 0 {
		cfg.Retention = DefaultRetention
	}
	if cfg.Checkpoint <= 0 {
		cfg.Checkpoint = DefaultCheckpoint
	}
	if cfg.Version == "" {
		cfg.Version = "0.0.0"
	}
	if cfg.Key == nil {
		if cfg.DataDir == "" {
			return nil, errors.New("the audit service needs a directory for its key, or the key")
		}
		key, err := loadKey(filepath.Join(cfg.DataDir, "audit.key"))
		if err != nil {
			return nil, err
		}
		cfg.Key = key
	}
	s := &Service{cfg: cfg}
	place := database.Config{URL: cfg.DatabaseURL}
	if cfg.DataDir != "" {
		place.File = filepath.Join(cfg.DataDir, "audit.db")
	}
	kept, err := table.Open(ctx, place)
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	if s.storeID, err = kept.StoreID(ctx); err != nil {
		kept.Close()
		return nil, err
	}
	s.store = kept
	return s, nil
}

// Name is the service's name on the bus.
func (s *Service) Name() string { return Name }

// Close closes the database. Stop what runs first.
func (s *Service) Close() { s.store.Close() }

// Running is one instance of the service on the bus.
type Running struct {
	service    *Service
	server     *bus.Server
	announcer  *registry.Announcer
	undescribe func()
	claim      *registry.Claim
	stop       context.CancelFunc
	done       []chan struct{}
	// stopping is once: the instance stops itself if it loses its claim.
	stopping sync.Once
	stopped  error
}

// Start puts the service on the bus and returns once it takes questions. It refuses
// an instance with another database than that of those that run, which would have a
// part of the trail. Stop it before closing the connection.
func (s *Service) Start(ctx context.Context, conn *bus.Conn) (_ *Running, err error) {
	log := s.cfg.Logger
	r := &Running{service: s}
	begun := make(chan struct{})
	r.claim, err = registry.ClaimStore(ctx, conn, Name, s.storeID, func() {
		if <-begun; r.stop == nil {
			return // the start failed
		}
		ctx, cancel := context.WithTimeout(context.Background(), lifecycle.DrainTimeout)
		defer cancel()
		if err := r.Stop(ctx); err != nil {
			log.Error("instance with another store not stopped in order", "service", Name, "error", err)
		}
	})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			r.claim.Release()
		}
		close(begun)
	}()
	witness, err := newWitness(ctx, conn, s.cfg.Key, log)
	if err != nil {
		return nil, err
	}
	q := questions{store: s.store, witness: witness, log: log}
	if r.server, err = bus.Serve(ctx, conn, bus.ServerConfig{Service: Name, Concurrency: 8, Handler: q.handle}); err != nil {
		return nil, err
	}
	if r.undescribe, err = r.server.Describe(s.cfg.Version, "keeps the audit trail"); err != nil {
		return nil, errors.Join(err, r.server.Drain(ctx))
	}
	// Edges learn that it is there; it offers nothing.
	r.announcer, err = registry.Announce(conn, Name, r.server.Instance(), s.cfg.Version, &busv1.Catalogue{Service: Name})
	if err != nil {
		r.undescribe()
		return nil, errors.Join(err, r.server.Drain(ctx))
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	r.stop = stop
	w := writer{store: s.store, reader: auditlog.NewReader(conn, s.cfg.AckWait), log: log, ackWait: s.cfg.AckWait}
	k := keeper{store: s.store, witness: witness, sign: trail.SignWith(s.cfg.Key), cfg: s.cfg, log: log}
	for _, run := range []func(context.Context){w.run, k.run} {
		done := make(chan struct{})
		r.done = append(r.done, done)
		go func() {
			defer close(done)
			run(running)
		}()
	}
	log.Info("service is on the bus", "service", Name, "version", s.cfg.Version, "instance", r.server.Instance())
	return r, nil
}

// Stop leaves the bus: what is being written is finished, what is not begun is
// left to other instances or the next start.
func (r *Running) Stop(ctx context.Context) error {
	r.stopping.Do(func() { r.stopped = r.leave(ctx) })
	return r.stopped
}

func (r *Running) leave(ctx context.Context) error {
	r.stop()
	for _, done := range r.done {
		select {
		case <-done:
		case <-ctx.Done():
		}
	}
	r.claim.Release()
	r.announcer.Withdraw(ctx)
	r.undescribe()
	return r.server.Drain(ctx)
}

// Run serves until ctx ends, then stops within lifecycle.DrainTimeout.
func (s *Service) Run(ctx context.Context, conn *bus.Conn) error {
	r, err := s.Start(ctx, conn)
	if err != nil {
		return err
	}
	<-ctx.Done()
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), lifecycle.DrainTimeout)
	defer cancel()
	return r.Stop(drain)
}
