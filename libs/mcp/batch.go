package mcp

import (
	"bytes"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/fault"
)

// MaxBatch is how many messages one batch may hold.
const MaxBatch = 16

// IsBatch reports whether bytes look like a JSON-RPC batch, which 2025-03-26
// has and no other version.
func IsBatch(b []byte) bool {
	b = bytes.TrimLeft(b, " \t\r\n")
	return len(b) > 0 && b[0] == '['
}

// Entry is one message of a batch. A message that is refused has Err and what
// is known of it.
type Entry struct {
	Message Message
	Err     error
}

// ParseBatch reads a batch as strictly as Parse reads a message; the limits
// hold for the whole of it. The error is for a batch of which nothing can be
// carried out.
func ParseBatch(b []byte, limits Limits) ([]Entry, error) {
	if err := Valid(b, limits); err != nil {
		return nil, err
	}
	var raw []jsontext.Value
	if err := json.Unmarshal(b, &raw); err != nil {
		return nil, fault.New(fault.InvalidRequest, "a batch must be an array").Because(err)
	}
	switch {
	case len(raw) == 0:
		return nil, fault.New(fault.InvalidRequest, "a batch must hold a message")
	case len(raw) > MaxBatch:
		return nil, fault.New(fault.TooLarge, "a batch holds at most %d messages", MaxBatch)
	}
	entries := make([]Entry, len(raw))
	for i, v := range raw {
		entries[i].Message, entries[i].Err = Parse(v, limits)
	}
	return entries, nil
}
