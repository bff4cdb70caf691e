// Package service is what a team uses to put tools, resources, prompts and
// skills on the bus. A service is a value that collects them; Main, Run or
// Start serves it. Services are stateless: any instance answers any call,
// whatever client, protocol version or door it came through.
//
// A complete service is in examples/hello.
package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/lifecycle"
)

// Service is a set of tools, resources, prompts and skills under one name. Add to it
// at any time; clients are told when a running service changes.
type Service struct {
	name        string
	version     string
	description string
	store       string
	concurrency int
	log         *slog.Logger

	mu        sync.Mutex
	tools     map[string]*tool
	resources map[string]*resource
	templates []*template
	prefixes  map[string]ReadFunc
	list      ListFunc
	prompts   map[string]*prompt
	skills    map[string]*servedSkill
	errs      []error
	sample    SampleFunc
	refresh   *refresh
	running   map[*Running]struct{}
}

// Option configures a Service.
type Option func(*Service)

// WithVersion sets the SemVer of the service's code. Default "0.0.0".
func WithVersion(v string) Option { return func(s *Service) { s.version = v } }

// WithDescription says in a sentence what the service is for, for people who
// look at the bus.
func WithDescription(d string) Option { return func(s *Service) { s.description = d } }

// WithConcurrency sets how many calls one instance runs at once, and how many
// tasks beside them. Default 64.
func WithConcurrency(n int) Option { return func(s *Service) { s.concurrency = n } }

// WithLogger sets where the service logs. Default slog.Default().
func WithLogger(l *slog.Logger) Option { return func(s *Service) { s.log = l } }

// WithStore says which store of data the instance works on, by an id that is kept
// in the store itself, such as that of database.StoreID. Start refuses an instance
// whose store is another than that of those that run: their clients would find
// one half of the data at one and the rest at the other. While the registry
// cannot be written, Start waits.
func WithStore(id string) Option { return func(s *Service) { s.store = id } }

// WithError keeps a mistake made on the way to the service, such as a wrong
// setting: Start returns it. nil is none.
func WithError(err error) Option {
	return func(s *Service) {
		if err != nil {
			s.errs = append(s.errs, err)
		}
	}
}

// New makes a service. The name is what calls are addressed to on the bus: 1
// to 64 characters of a-z, A-Z, 0-9, - and _; not client, edge or gateway.
func New(name string, opts ...Option) *Service {
	s := &Service{
		name: name, version: "0.0.0",
		tools: map[string]*tool{}, resources: map[string]*resource{}, prompts: map[string]*prompt{}, prefixes: map[string]ReadFunc{},
		skills: map[string]*servedSkill{}, running: map[*Running]struct{}{},
	}
	for _, o := range opts {
		o(s)
	}
	if err := bus.ValidService(name); err != nil {
		s.errs = append(s.errs, fmt.Errorf("service %w", err))
	}
	return s
}

// Name is the service's name on the bus.
func (s *Service) Name() string { return s.name }

// logger is read at use: Main sets up slog after the service is made.
func (s *Service) logger() *slog.Logger {
	if s.log != nil {
		return s.log
	}
	return slog.Default()
}

// register adds something under the lock and tells running instances. A
// mistake is kept and returned by Start, so that a service is declared
// without error handling line by line; made while it runs, it is logged.
func (s *Service) register(what string, add func() error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := add(); err != nil {
		err = fmt.Errorf("%s: %w", what, err)
		s.errs = append(s.errs, err)
		if len(s.running) > 0 {
			s.logger().Error("not added to the running service", "service", s.name, "error", err)
		}
		return
	}
	// Under the lock, so that the last change is the last announced.
	for r := range s.running {
		r.serveTasksLocked()
		r.announceLocked()
	}
}

// Running is one instance of a service on the bus.
type Running struct {
	service    *Service
	conn       *bus.Conn
	server     *bus.Server
	announcer  *bus.Announcer
	undescribe func()
	// store is nil for a service without WithStore.
	store *bus.StoreClaim
	// unrefresh is nil for a service that shares nothing.
	unrefresh func()

	// caller is nil until a tool calls another.
	callerMu sync.Mutex
	caller   *bus.Caller
}

// Start puts the service on the bus and returns once it takes calls. Stop it
// before closing the connection.
func (s *Service) Start(ctx context.Context, conn *bus.Conn) (_ *Running, err error) {
	s.mu.Lock()
	err = errors.Join(s.errs...)
	s.mu.Unlock()
	if err != nil {
		return nil, fmt.Errorf("service %s is not well formed: %w", s.name, err)
	}
	r := &Running{service: s, conn: conn}
	if err := r.claimStore(ctx); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			r.releaseStore()
		}
	}()
	r.server, err = bus.Serve(ctx, conn, bus.ServerConfig{Service: s.name, Concurrency: s.concurrency, Handler: r.handle})
	if err != nil {
		return nil, err
	}
	if r.undescribe, err = r.server.Describe(s.version, s.description); err != nil {
		return nil, errors.Join(err, r.server.Drain(ctx))
	}
	// Registered before it is announced, so that no addition falls between.
	s.mu.Lock()
	r.announcer, err = bus.Announce(conn, s.name, r.server.Instance(), s.version, s.catalogueLocked())
	if err == nil {
		s.running[r] = struct{}{}
		r.serveTasksLocked()
	}
	s.mu.Unlock()
	if err == nil && s.refresh != nil {
		if r.unrefresh, err = s.refresh.start(ctx, s, conn); err != nil {
			r.leave(ctx)
		}
	}
	if err != nil {
		r.undescribe()
		return nil, errors.Join(err, r.server.Drain(ctx))
	}
	s.logger().Info("service is on the bus", "service", s.name, "version", s.version, "instance", r.server.Instance())
	return r, nil
}

// claimStore sees to it that no instance works on another store.
func (r *Running) claimStore(ctx context.Context) (err error) {
	s := r.service
	if s.store == "" {
		return nil
	}
	r.store, err = r.conn.ClaimStore(ctx, s.name, s.store, func() {
		ctx, cancel := context.WithTimeout(context.Background(), lifecycle.DrainTimeout)
		defer cancel()
		if err := r.Stop(ctx); err != nil {
			s.logger().Error("instance with another store not stopped in order", "service", s.name, "error", err)
		}
	})
	return err
}

func (r *Running) releaseStore() {
	if r.store != nil {
		r.store.Release()
	}
}

// serveTasksLocked takes tasks as soon as there is a tool that makes any.
func (r *Running) serveTasksLocked() {
	for _, t := range r.service.tools {
		if t.task != TaskNever {
			r.server.ServeTasks(r.handleTask)
			return
		}
	}
}

func (r *Running) announceLocked() {
	if err := r.announcer.Update(r.service.catalogueLocked()); err != nil {
		r.service.logger().Error("change not announced", "service", r.service.name, "error", err)
	}
}

// Stop leaves the bus: no new calls, those in flight finish. When ctx ends
// first they are cancelled.
func (r *Running) Stop(ctx context.Context) error {
	if r.unrefresh != nil {
		r.unrefresh()
	}
	r.leave(ctx)
	r.undescribe()
	err := r.server.Drain(ctx)
	r.callerMu.Lock()
	defer r.callerMu.Unlock()
	if r.caller != nil {
		err = errors.Join(err, r.caller.Close())
	}
	return err
}

// callers returns what the instance makes calls of its own with.
func (r *Running) callers() (_ *bus.Caller, err error) {
	r.callerMu.Lock()
	defer r.callerMu.Unlock()
	if r.caller == nil {
		r.caller, err = bus.NewGatewayCaller(r.conn)
	}
	return r.caller, err
}

// leave takes the instance out of the registry.
func (r *Running) leave(ctx context.Context) {
	r.releaseStore()
	r.service.mu.Lock()
	delete(r.service.running, r)
	r.service.mu.Unlock()
	r.announcer.Withdraw(ctx)
}

// Run serves until ctx ends, then drains for at most lifecycle.DrainTimeout.
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

// catalogueLocked describes what the service offers, in stable order.
func (s *Service) catalogueLocked() *busv1.Catalogue {
	c := &busv1.Catalogue{Service: s.name}
	for _, t := range sorted(s.tools) {
		c.Tools = append(c.Tools, t.wire)
	}
	for _, r := range sorted(s.resources) {
		c.Resources = append(c.Resources, r.wire)
	}
	for _, t := range s.templates {
		c.ResourceTemplates = append(c.ResourceTemplates, t.wire)
	}
	c.ListsResources = s.list != nil
	c.ResourcePrefixes = slices.Sorted(maps.Keys(s.prefixes))
	for _, p := range sorted(s.prompts) {
		c.Prompts = append(c.Prompts, p.wire)
	}
	for _, k := range sorted(s.skills) {
		c.Resources = append(c.Resources, k.main)
		c.Skills = append(c.Skills, k.wire)
	}
	c.Samples = s.sample != nil
	return c
}
