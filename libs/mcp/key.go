package mcp

import "github.com/busbar-mcp/busbar/libs/fault"

// MaxIdempotencyKey is the longest idempotency key, in bytes.
const MaxIdempotencyKey = 255

// CheckIdempotencyKey refuses an idempotency key that a client gives: an empty
// one is a mistake rather than none. The error has reason InvalidRequest.
func CheckIdempotencyKey(key string) error {
	if key == "" || len(key) > MaxIdempotencyKey {
		return badKey()
	}
	return nil
}

func badKey() *fault.Error {
	return fault.New(fault.InvalidRequest, "an idempotency key has 1 to %d bytes", MaxIdempotencyKey)
}
