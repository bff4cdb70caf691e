package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/busbar-mcp/busbar/libs/probe"
)

// Check adds a condition of readiness, such as a database. away returns nil, or the reason why the
// instance lacks it, without a request to anyone. An instance that is not ready says so at /readyz
// and continues with its calls. Call Check before the service starts.
func (s *Service) Check(name string, away func() error) {
	s.checks = append(s.checks, probe.Check{Name: name, Look: func() (_ string, err error) {
		defer func() {
			if p := recover(); p != nil {
				err = errors.New("the check panicked") // a probe over the bus must not end the service
				s.Logger().Error("a check of readiness panicked", "check", name, "panic", p)
			}
		}()
		return "there", away()
	}})
}

// AddMetrics adds metrics of the service to /metrics of each instance. Do not use text from clients
// as a label value: each value becomes a series that is kept for months. Call AddMetrics before the
// service starts.
func (s *Service) AddMetrics(metrics ...prometheus.Collector) { s.shown = append(s.shown, metrics...) }

// watch serves the probes of an instance, from before it joins the bus until it has left.
type watch struct {
	probe   *probe.Probe
	running atomic.Pointer[Running]
	stop    context.CancelFunc
	ended   chan error
}

// newWatch begins to serve. It returns nil if l is nil; the methods of a nil watch do nothing.
func newWatch(l *probe.Listener) *watch {
	if l == nil {
		return nil
	}
	w := &watch{ended: make(chan error, 1)}
	w.probe = probe.New(w.checks)
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	go func() { w.ended <- l.Serve(ctx, w.probe) }()
	return w
}

// close ends it.
func (w *watch) close() {
	if w != nil {
		w.stop()
		<-w.ended
	}
}

// show is called once the instance is on the bus.
func (w *watch) show(r *Running) {
	if w != nil {
		r.show(w.probe)
		w.running.Store(r)
	}
}

var errStarting = errors.New("the service is starting: it waits for the bus, or for what it needs, such as a database")

func (w *watch) checks() []probe.Check {
	if r := w.running.Load(); r != nil {
		return r.checks()
	}
	return []probe.Check{{Name: "start", Look: func() (string, error) { return "", errStarting }}}
}

// checks are the checks of /readyz.
func (r *Running) checks() []probe.Check {
	return append([]probe.Check{{Name: "bus", Look: r.busReady}, {Name: "registry", Look: r.registered}}, slices.Clip(r.service.checks)...)
}

// notReady lists the failing checks with their reasons; empty for none.
func (r *Running) notReady() string {
	var why []string
	for _, c := range r.checks() {
		if _, err := c.Look(); err != nil {
			why = append(why, c.Name+": "+err.Error())
		}
	}
	return strings.Join(why, "; ")
}

func (r *Running) busReady() (string, error) {
	if !r.conn.Connected() {
		return "", errors.New("the bus is not reachable: see whether NATS runs, and --nats")
	}
	return "connected", nil
}

// registered reports whether the instance is registered, so that edges send it calls.
func (r *Running) registered() (string, error) {
	if r.leaving.Load() {
		return "", errors.New("the instance is leaving: it takes no new calls, and finishes those that it has")
	}
	if err := r.announcer.RefusedSince(); err != nil {
		return "", fmt.Errorf("edges may not know the instance, whose entry the registry does not take: see the rights of its NATS user, and \"busbar doctor\": %w", err)
	}
	return "instance " + r.server.Instance() + " takes calls", nil
}
