package storage

import (
	"context"
	"testing"
	"time"
)

// Step is step.
var Step = step

// LookAfter is one round of Keep, which runs in a goroutine of its own.
func (s *Storage) LookAfter(ctx context.Context) { s.lookAfter(ctx) }

// SpreadEvery sets the time between two steps of edges.
func SpreadEvery(t *testing.T, d time.Duration) {
	before := spreadEvery
	spreadEvery = d
	t.Cleanup(func() { spreadEvery = before })
}
