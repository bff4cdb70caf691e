package storage

import (
	"context"
	"testing"
	"time"
)

// Step is step.
var Step = step

// LookAfter is one lap of Keep, which has a goroutine of its own.
func (s *Storage) LookAfter(ctx context.Context) { s.lookAfter(ctx) }

// SpreadEvery sets how long edges leave between two steps.
func SpreadEvery(t *testing.T, d time.Duration) {
	before := spreadEvery
	spreadEvery = d
	t.Cleanup(func() { spreadEvery = before })
}
