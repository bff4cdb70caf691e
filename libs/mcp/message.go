package mcp

import (
	"bytes"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/fault"
)

// Kind is the kind of a JSON-RPC message.
type Kind uint8

// Kinds of message. Invalid is the zero value.
const (
	Invalid Kind = iota
	Request
	Notification
	Response
)

// Message is one JSON-RPC message. Byte slices are the sender's own bytes and alias the input; they
// stay valid as long as the message.
type Message struct {
	Kind Kind
	// ID is the id as written, quotes included, so that an answer can echo it
	// byte for byte. Nil if the message has none.
	ID     []byte
	Method string
	// Params is the params object as written; nil if absent.
	Params []byte
	// Result or Error of a response, as written.
	Result, Error []byte
	// P holds the members of Params that the protocol reads.
	P Params
}

// Params are the members of params that the protocol reads, for any method.
// A nil slice or an empty string means the member was absent.
type Params struct {
	Name string
	URI  string
	// Cursor is nil when absent: an empty cursor is a cursor.
	Cursor    []byte
	Arguments []byte
	// Meta is _meta as written.
	Meta []byte

	// OtherMeta holds the members of _meta that neither the specification nor Busbar defines, as an
	// object; nil without parameters.
	OtherMeta []byte

	// Members of _meta.
	ProtocolVersion    string
	ClientInfo         []byte
	ClientCapabilities []byte
	LogLevel           string
	// ProgressToken is the token as written: a string or an integer.
	ProgressToken  []byte
	Traceparent    string
	Tracestate     string
	IdempotencyKey string

	// Members of initialize.
	InitVersion      string
	InitInfo         []byte
	InitCapabilities []byte

	// InputResponses and RequestState belong to a repeated call.
	InputResponses []byte
	RequestState   []byte

	// RequestID of notifications/cancelled, as written.
	RequestID []byte
	Reason    string
	// Level of logging/setLevel.
	Level string
	// TaskID of tasks/get, tasks/update and tasks/cancel.
	TaskID string
	// Notifications is the filter of subscriptions/listen.
	Notifications []byte
}

// Parse reads one JSON-RPC message strictly: RFC 8259 syntax, UTF-8 without
// lone surrogates, no duplicate members at any depth, member names compared
// case-sensitively, sizes within limits, nothing after the message.
//
// On error the message still carries what is known, in particular a valid id, so that the
// answer can carry it. Errors are *fault.Error, and nothing has run.
func Parse(b []byte, limits Limits) (Message, error) {
	limits = limits.orDefault()
	if len(b) > limits.Bytes {
		return Message{}, fault.New(fault.TooLarge, "message is %d bytes; the limit is %d", len(b), limits.Bytes)
	}
	var m Message
	err := scan(scanner{b: b, lim: limits}, func(s *scanner) error {
		s.m = &s.own
		err := s.message()
		m = s.own
		return err
	})
	return m, err
}

// Limits bounds one message. A zero field means the default.
type Limits struct {
	// Bytes of the whole message. Default 960 KiB: a NATS message of 1 MiB less
	// its envelope.
	Bytes int
	// Depth of nesting. Default 64.
	Depth int
	// Values in all. Default 20,000.
	Values int
	// Members of one object. Default 1,000.
	Members int
	// NumberBytes of one number. Default 40. An exponent has at most three
	// digits, whatever this limit is.
	NumberBytes int
	// StringBytes of one string, in UTF-8 without its escapes. Default 512 KiB.
	StringBytes int
	// IDBytes of a string id, as written without quotes. Default 128.
	IDBytes int
}

// DefaultLimits returns the limits that zero fields stand for.
func DefaultLimits() Limits {
	return Limits{
		Bytes: 960 << 10, Depth: 64, Values: 20_000, Members: 1_000,
		NumberBytes: 40, StringBytes: 512 << 10, IDBytes: 128,
	}
}

func (l Limits) orDefault() Limits {
	d := DefaultLimits()
	for _, f := range []struct{ v, d *int }{
		{&l.Bytes, &d.Bytes}, {&l.Depth, &d.Depth}, {&l.Values, &d.Values}, {&l.Members, &d.Members},
		{&l.NumberBytes, &d.NumberBytes}, {&l.StringBytes, &d.StringBytes}, {&l.IDBytes, &d.IDBytes},
	} {
		if *f.v == 0 {
			*f.v = *f.d
		}
	}
	return l
}

// MaxBatch is how many messages one batch may hold.
//
//limit:message messages of a batch of JSON-RPC (2025-03-26) | `too_large`
const MaxBatch = 16

// IsBatch reports whether bytes look like a JSON-RPC batch, which only version 2025-03-26
// has.
func IsBatch(b []byte) bool {
	b = bytes.TrimLeft(b, " \t\r\n")
	return len(b) > 0 && b[0] == '['
}

// Entry is one message of a batch. A refused message has Err and the parts that could be
// read.
type Entry struct {
	Message Message
	Err     error
}

// ParseBatch reads a batch as strictly as Parse reads a message; the limits apply to the
// whole batch. It returns an error if nothing in the batch can be executed.
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
		return nil, fault.New(fault.InvalidRequest, "a batch must contain at least one message")
	case len(raw) > MaxBatch:
		return nil, fault.New(fault.TooLarge, "a batch has too many messages; the limit is %d", MaxBatch)
	}
	entries := make([]Entry, len(raw))
	for i, v := range raw {
		entries[i].Message, entries[i].Err = Parse(v, limits)
	}
	return entries, nil
}
