package wire

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/busbar-mcp/busbar/libs/fault"
)

// NotSent is the fault for a failed publish: nothing left this process.
func NotSent(err error) *fault.Error {
	if errors.Is(err, nats.ErrMaxPayload) {
		return fault.New(fault.TooLarge, "request exceeds what one bus message carries").Because(err)
	}
	return shortly("the bus is not reachable; try again shortly").Because(err)
}

// NotReached is the fault for a failed request to JetStream.
func NotReached(err error) *fault.Error {
	return shortly("shared state is not reachable; try again shortly").Because(err)
}

// shortly is an error that tells the caller to retry after a second.
func shortly(message string) *fault.Error {
	e := fault.New(fault.Unavailable, "%s", message)
	e.RetryAfter = time.Second
	return e
}

// NoAnswer reports whether an error means that no server answered, rather than that a server
// refused.
func NoAnswer(err error) bool {
	var refused *jetstream.APIError
	if errors.As(err, &refused) {
		// No server has room for it now, or the server that holds it is away.
		return refused.Code == 503 || refused.ErrorCode == 10005 || refused.ErrorCode == 10118
	}
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout) || errors.Is(err, nats.ErrNoResponders) ||
		errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, nats.ErrDisconnected) || errors.Is(err, nats.ErrReconnectBufExceeded)
}

// Refused reports whether an error proves that JetStream did not store a write: it says so, or
// no server was there to take it.
func Refused(err error) bool {
	var refused jetstream.JetStreamError
	return errors.As(err, &refused) && refused.APIError() != nil ||
		errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, nats.ErrMaxPayload)
}

// Full reports whether JetStream refused a write because the limits of its stream are
// reached.
func Full(err error) bool {
	var refused jetstream.JetStreamError
	return errors.As(err, &refused) && refused.APIError() != nil && refused.APIError().ErrorCode == jetstreamFull
}

// jetstreamFull is JetStream's code for a write that does not fit.
const jetstreamFull = 10077

// Deleted reports whether a message of a bucket says that its key is gone.
func Deleted(h nats.Header) bool {
	return h.Get("KV-Operation") != "" || h.Get("Nats-Marker-Reason") != ""
}

// Jitter spreads d by a fifth either way, so that a fleet does not act at the same moment.
func Jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.8 + 0.4*rand.Float64()))
}
