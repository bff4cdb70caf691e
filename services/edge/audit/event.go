package audit

import (
	"hash"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	auditv1 "github.com/busbar-mcp/busbar/gen/busbar/audit/v1"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/redact"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// Bytes kept of what clients send.
const (
	maxArguments = 8 << 10
	maxName      = 2 << 10
	maxWord      = 200
)

// Begun is the outcome of a call that has begun; of one that has no other, none
// was recorded.
const Begun = "begun"

// begun is the record of a call that begins: its event, marshalled.
func (t *Trail) begun(c *gateway.Call) ([]byte, error) {
	e := t.event(c, "-1", time.Since(c.Received))
	e.Outcome, e.Executed = Begun, string(fault.Unknown)
	return proto.Marshal(e)
}

// ended is that of one that is over.
func (t *Trail) ended(r gateway.Record) ([]byte, error) {
	e := t.event(r.Call, "-2", r.Duration)
	e.Outcome, e.Executed = r.Outcome, string(fault.Yes)
	switch {
	case r.Err != nil:
		e.Executed = string(r.Err.Executed)
	case r.Call.Replayed:
		e.Executed = string(fault.No)
	case r.Outcome == "left":
		e.Executed = string(fault.Unknown)
	}
	return proto.Marshal(e)
}

// delayed is an event that says nothing but that it is.
var delayed, _ = proto.Marshal(&auditv1.AuditEvent{Delayed: true})

// late is a record that also says that it was delayed: what follows in a
// protobuf message is merged into what was before.
func late(record []byte) []byte { return append(record[:len(record):len(record)], delayed...) }

func (t *Trail) event(c *gateway.Call, suffix string, took time.Duration) *auditv1.AuditEvent {
	e := &auditv1.AuditEvent{
		Id: c.ID + suffix, Call: c.ID, TimeUnixNano: uint64(c.Received.UnixNano()), DurationNano: uint64(max(took, 0)),
		Tenant: clean(c.Principal.Tenant, maxWord), Principal: clean(c.Principal.Name, maxWord),
		ClientName: clean(redact.Text(c.Client.GetName()), maxWord), ClientVersion: clean(redact.Text(c.Client.GetVersion()), maxWord),
		Door: c.Door, Method: clean(c.Method, maxWord), Name: clean(redact.Text(c.Name), maxName), Service: c.Target.Service,
		Edge: t.cfg.Edge, Traceparent: clean(c.Traceparent, maxWord),
	}
	if len(c.Arguments) > 0 {
		arguments, note := redact.JSON(c.Arguments, maxArguments)
		e.Arguments, e.ArgumentsNote, e.ArgumentsDigest = arguments, string(note), t.digest("arguments", c.Arguments)
	}
	if c.IdempotencyKey != "" {
		e.IdempotencyDigest = t.digest("idempotency key", []byte(c.IdempotencyKey))
	}
	return e
}

// digest stands for what is not recorded itself. Who has the key can tell
// whether two are the same, and check a guess.
func (t *Trail) digest(what string, data []byte) []byte {
	h := t.digests.Get().(hash.Hash)
	defer t.digests.Put(h)
	h.Reset()
	_, _ = io.WriteString(h, what)
	_, _ = h.Write([]byte{0})
	_, _ = h.Write(data)
	return h.Sum(nil)
}

// clean is the beginning of a text, valid and without NUL, which databases
// refuse.
func clean(s string, most int) string {
	if len(s) > most {
		for most > 0 && !utf8.RuneStart(s[most]) {
			most--
		}
		s = s[:most] + "…"
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}
