package resource

import (
	"context"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/resource/store"
)

const (
	// readingBytes limits the large contents that concurrent calls of one instance hold until they
	// are answered. Each content exists about four times meanwhile: as stored, as text, as JSON and
	// as a message.
	//limit:store all large resources that an instance reads at once | further reads wait
	readingBytes = 64 << 20
	// readingTime is how long a call waits for its turn.
	readingTime = 5 * time.Second
)

// reading limits the calls that read large contents.
type reading struct{ room *semaphore.Weighted }

func newReading() *reading { return &reading{semaphore.NewWeighted(readingBytes)} }

// admit waits for room for a content, and gives it back when the call of ctx ends.
func (r *reading) admit(ctx context.Context) func(size int64) error {
	return func(size int64) error {
		size = min(size, store.MaxContent)
		waiting, cancel := context.WithTimeout(ctx, readingTime)
		defer cancel()
		if r.room.Acquire(waiting, size) != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fault.New(fault.Overloaded, "too many large resources are being read; try again shortly").Ran(fault.No)
		}
		context.AfterFunc(ctx, func() { r.room.Release(size) })
		return nil
	}
}
