package database

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/busbar-mcp/busbar/libs/tracing"
)

// recorded is a database that counts its calls and makes a span for each recorded one. Spans have
// the names of the owner and of the operation, but no statements and no values.
type recorded struct {
	Database
	system, owner attribute.KeyValue
	duration      *prometheus.HistogramVec
	// full is set if the disk was full at the last write. Only the next write can reset it.
	full  *atomic.Bool
	holds string
}

// traced wraps the result of a function that opens a database.
func traced(system attribute.KeyValue, cfg Config) func(Database, error) (Database, error) {
	return func(d Database, err error) (Database, error) {
		if err != nil {
			return nil, err
		}
		return recorded{d, system, semconv.DBNamespace(cfg.Owner), newDuration(), new(atomic.Bool), cfg.Holds}, nil
	}
}

// Write implements Database.
func (r recorded) Write(ctx context.Context, f func(context.Context, Tx) error) error {
	began := time.Now()
	ctx, span := r.begin(ctx, "write")
	err := r.Database.Write(ctx, f)
	if noRoom := full(err); noRoom || err == nil {
		r.full.Store(noRoom)
	}
	r.observe("write", began, err)
	tracing.End(span, err)
	return err
}

// Away implements Database.
func (r recorded) Away() error {
	if err := r.Database.Away(); err != nil || !r.full.Load() {
		return err
	}
	return errors.New("the disk of the database of " + r.holds + " was full at the last write: make room there; what writes is refused until then")
}

// Read implements Database.
func (r recorded) Read(ctx context.Context, f func(context.Context, Tx) error) error {
	began := time.Now()
	ctx, span := r.begin(ctx, "read")
	err := r.Database.Read(ctx, f)
	r.observe("read", began, err)
	tracing.End(span, err)
	return err
}

func (r recorded) begin(ctx context.Context, operation string) (context.Context, trace.Span) {
	ctx, span := tracing.Within(ctx, operation, trace.SpanKindClient)
	if span != nil {
		span.SetName(operation + " " + r.owner.Value.AsString())
		span.SetAttributes(r.system, r.owner, semconv.DBOperationName(operation))
	}
	return ctx, span
}
