package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/logs"
	"github.com/busbar-mcp/busbar/libs/bus/registry"
	"github.com/busbar-mcp/busbar/libs/bus/task"
	"github.com/busbar-mcp/busbar/libs/lifecycle"
	"github.com/busbar-mcp/busbar/libs/redact"
)

// Go runs f in every instance, alongside its calls, from the time the instance joins the bus until
// it leaves. f must return soon after ctx has ended; an error before that stops the instance. Call
// Go before the service starts.
func (s *Service) Go(f func(ctx context.Context, conn *bus.Conn) error) {
	s.register("Go", func() error {
		if f == nil {
			return errNoFunction
		}
		s.loops = append(s.loops, f)
		return nil
	})
}

// OnStop registers f to close something that the service opened. f is called once when no instance
// runs any more, or when none could be started. The function added last is called first. Call it
// before the service starts; a service with OnStop does not start again.
func (s *Service) OnStop(f func()) {
	s.register("OnStop", func() error {
		if f == nil {
			return errNoFunction
		}
		s.closers = append(s.closers, f)
		return nil
	})
}

// Close calls the functions of OnStop. It is for a service that is never started; otherwise Stop
// does it.
func (s *Service) Close() {
	s.mu.Lock()
	closers := s.closers
	s.closers = nil
	s.mu.Unlock()
	for _, f := range slices.Backward(closers) {
		f()
	}
}

// Running is one instance of a service on the bus.
type Running struct {
	service   *Service
	conn      *bus.Conn
	server    *bus.Server
	announcer *registry.Announcer
	// tap takes the log records of calls for operators who follow.
	tap   *logs.Tap
	tasks sync.Once // starts serving tasks, once

	// undo takes back what Start did, the last first.
	undo     []func(context.Context) error
	started  chan struct{}
	stopping sync.Once
	leaving  atomic.Bool
	stopped  chan struct{}
	// err is the reason why the instance stopped by itself, and the errors of Stop.
	err error

	// caller is nil until a tool calls another.
	callerMu sync.Mutex
	caller   *bus.Caller
}

// Start puts an instance on the bus and returns once it takes calls. Stop it
// before closing the connection.
func (s *Service) Start(ctx context.Context, conn *bus.Conn) (*Running, error) {
	r := &Running{service: s, conn: conn, started: make(chan struct{}), stopped: make(chan struct{})}
	s.mu.Lock()
	s.instances++
	err := errors.Join(s.errs...)
	s.mu.Unlock()
	if err != nil {
		err = fmt.Errorf("service %s is not well formed: %w", s.name, err)
	} else {
		err = r.start(ctx)
	}
	close(r.started)
	if err != nil {
		return nil, errors.Join(err, r.Stop(ctx))
	}
	s.Logger().Info("service is on the bus", "service", s.name, "version", s.version, "instance", r.server.Instance())
	return r, nil
}

func (r *Running) start(ctx context.Context) (err error) {
	s := r.service
	if s.store != "" {
		claim, err := registry.ClaimStore(ctx, r.conn, s.name, s.store, func() { r.fail(registry.ErrOtherStore) })
		if err != nil {
			return err
		}
		r.then(func(context.Context) error { claim.Release(); return nil })
	}
	r.then(func(context.Context) error { return r.closeCaller() })
	r.tap = logs.NewTap(r.conn, s.name, withoutSecrets)
	cfg := bus.ServerConfig{Service: s.name, Concurrency: s.concurrency, Handler: r.handle, Logger: r.logger, Clean: redact.Text}
	if s.figures != nil {
		cfg.Observe = s.figures.observe
	}
	r.server, err = bus.Serve(ctx, r.conn, cfg)
	if err != nil {
		return err
	}
	unfollow, err := r.tap.Serve(r.server.Instance())
	if err != nil {
		return errors.Join(err, r.server.Drain(ctx))
	}
	r.then(func(context.Context) error { unfollow(); return nil })
	r.then(r.server.Drain)
	if err := r.announce(); err != nil {
		return err
	}
	r.then(r.withdraw)
	undescribe, err := r.server.Describe(s.version, s.description, r.notReady)
	if err != nil {
		return err
	}
	r.then(func(context.Context) error { undescribe(); return nil })
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	var loops sync.WaitGroup
	for _, f := range s.loops {
		loops.Go(func() {
			if err := f(running, r.conn); err != nil && running.Err() == nil {
				go r.fail(err)
			}
		})
	}
	r.then(func(ctx context.Context) error {
		stop()
		return waitFor(ctx, &loops)
	})
	return nil
}

// then adds a step for Stop. Steps run in reverse order.
func (r *Running) then(undo func(context.Context) error) { r.undo = append(r.undo, undo) }

func waitFor(ctx context.Context, loops *sync.WaitGroup) error {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		loops.Wait()
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("a loop of the service has not ended in time: %w", ctx.Err())
	}
}

// announce puts the instance into the registry. It holds the lock, so that nothing is added between
// the announcement and its updates.
func (r *Running) announce() (err error) {
	s := r.service
	s.mu.Lock()
	defer s.mu.Unlock()
	r.announcer, err = registry.Announce(r.conn, s.name, r.server.Instance(), s.version, s.catalogueLocked())
	if err == nil {
		s.running[r] = struct{}{}
		r.serveTasksLocked()
	}
	return err
}

// withdraw takes the instance out of the registry.
func (r *Running) withdraw(ctx context.Context) error {
	s := r.service
	s.mu.Lock()
	delete(s.running, r)
	s.mu.Unlock()
	r.announcer.Withdraw(ctx)
	return nil
}

// changedLocked announces what the service offers now.
func (r *Running) changedLocked() {
	r.serveTasksLocked()
	if err := r.announcer.Update(r.service.catalogueLocked()); err != nil {
		r.service.Logger().Error("change not announced", "service", r.service.name, "error", err)
	}
}

// serveTasksLocked takes tasks as soon as there is a tool that makes any.
func (r *Running) serveTasksLocked() {
	for _, t := range r.service.tools {
		if t.task != TaskNever {
			r.tasks.Do(func() { task.Serve(r.server, r.handleTask) })
			return
		}
	}
}

// fail stops an instance that cannot continue.
func (r *Running) fail(cause error) {
	<-r.started
	ctx, cancel := context.WithTimeout(context.Background(), lifecycle.DrainTimeout)
	defer cancel()
	r.stop(ctx, cause)
}

// Instance is the id of the instance on the bus.
func (r *Running) Instance() string { return r.server.Instance() }

// Serve returns when ctx has ended and calls have drained, for at most lifecycle.DrainTimeout, or
// when the instance has stopped for another reason, which the error says.
func (r *Running) Serve(ctx context.Context) error {
	select {
	case <-ctx.Done():
	case <-r.stopped:
		return r.err
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), lifecycle.DrainTimeout)
	defer cancel()
	return r.Stop(drain)
}

// Stop leaves the bus: loops end, new calls are refused, and calls in flight finish. If ctx ends
// first, they are cancelled. Stopping the last instance also calls the functions of OnStop.
func (r *Running) Stop(ctx context.Context) error {
	r.stop(ctx, nil)
	<-r.stopped
	return r.err
}

func (r *Running) stop(ctx context.Context, cause error) {
	r.stopping.Do(func() {
		r.leaving.Store(true)
		s := r.service
		if cause != nil {
			s.Logger().Error("instance stops", "service", s.name, "error", cause)
			cause = fmt.Errorf("service %s: %w", s.name, cause)
		}
		errs := []error{cause}
		for _, undo := range slices.Backward(r.undo) {
			errs = append(errs, undo(ctx))
		}
		s.mu.Lock()
		s.instances--
		last := s.instances == 0
		s.mu.Unlock()
		if last {
			s.Close()
		}
		r.err = errors.Join(errs...)
		close(r.stopped)
	})
}

// anyConn is the connection of any running instance: every edge listens to all of them. nil if none
// runs.
func (s *Service) anyConn() *bus.Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	for r := range s.running {
		return r.conn
	}
	return nil
}

// callers returns the Caller with which the instance's tools call other tools.
func (r *Running) callers() (_ *bus.Caller, err error) {
	r.callerMu.Lock()
	defer r.callerMu.Unlock()
	if r.caller == nil {
		r.caller, err = bus.NewGatewayCaller(r.conn, r.service.name)
	}
	return r.caller, err
}

func (r *Running) closeCaller() error {
	r.callerMu.Lock()
	defer r.callerMu.Unlock()
	if r.caller == nil {
		return nil
	}
	return r.caller.Close()
}
