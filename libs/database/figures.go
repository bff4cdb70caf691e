package database

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/probe"
)

func newDuration() *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "busbar_database_duration_seconds",
		Help:    "How long a call of the database took, with the wait for a connection. operation is read or write; outcome is ok, rejected, failed, or a reason of docs/reference/errors.md.",
		Buckets: probe.Durations,
	}, []string{"service", "operation", "outcome"})
}

// observe counts a call that began at the given time.
func (r recorded) observe(operation string, began time.Time, err error) {
	r.duration.WithLabelValues(r.owner.Value.AsString(), operation, outcome(err)).Observe(time.Since(began).Seconds())
}

// outcome is the label for how a call ended.
func outcome(err error) string {
	var f *fault.Error
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &f):
		return string(f.Reason)
	case errors.Is(err, ErrRejected):
		return "rejected"
	}
	return "failed"
}

// Figures implements Database.
func (r recorded) Figures() []prometheus.Collector { return append(r.Database.Figures(), r.duration) }

// connections are the metrics of an engine's connections.
func connections(owner string, count func() (used, most int)) []prometheus.Collector {
	gauge := func(name, help string, f func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: prometheus.Labels{"service": owner}}, f)
	}
	return []prometheus.Collector{
		gauge("busbar_database_connections_used", "Connections to the database that calls have at the moment.", func() float64 { used, _ := count(); return float64(used) }),
		gauge("busbar_database_connections_most", "Connections to the database that there may be.", func() float64 { _, most := count(); return float64(most) }),
	}
}

// Figures implements Database.
func (p *postgres) Figures() []prometheus.Collector {
	return connections(p.cfg.Owner, func() (used, most int) {
		s := p.pool.Stat()
		return int(s.AcquiredConns()), int(s.MaxConns())
	})
}

// Figures implements Database.
func (s *sqlite) Figures() []prometheus.Collector {
	return connections(s.cfg.Owner, func() (used, most int) {
		write, read := s.write.Stats(), s.read.Stats()
		return write.InUse + read.InUse, write.MaxOpenConnections + read.MaxOpenConnections
	})
}
