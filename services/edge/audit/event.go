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
	//limit:message arguments in an audit event | the rest is left out
	maxArguments = 8 << 10
	maxName      = 2 << 10
	maxWord      = 200
)

// Begun is the outcome of a call that has begun. If a call has no other event, its end
// was not recorded.
const Begun = "begun"

// begun is the event of a call that begins, marshalled.
func (t *Trail) begun(v gateway.View) ([]byte, error) {
	e := t.event(v, "-1", time.Since(v.Received))
	e.Outcome, e.Executed = Begun, string(fault.Unknown)
	return proto.Marshal(e)
}

// ended is the event of a call that has ended, marshalled.
func (t *Trail) ended(r gateway.Record) ([]byte, error) {
	e := t.event(r.View, "-2", r.Duration)
	e.Outcome, e.Executed = r.Outcome, string(r.Executed()) // fault:trail-says-no
	return proto.Marshal(e)
}

// delayed is an event that says only that it was delayed.
var delayed, _ = proto.Marshal(&auditv1.AuditEvent{Delayed: true})

// late is a record that also says that it was delayed. Appending works because protobuf
// merges a message into the one before it.
func late(record []byte) []byte { return append(record[:len(record):len(record)], delayed...) }

// event has the fields that every event of a call has.
func (t *Trail) event(v gateway.View, suffix string, took time.Duration) *auditv1.AuditEvent {
	e := t.brief(v)
	e.Id, e.DurationNano = v.ID+suffix, uint64(max(took, 0))
	e.ClientName, e.ClientVersion = plain(v.Client.GetName(), maxWord), plain(v.Client.GetVersion(), maxWord)
	e.Traceparent = clean(v.Traceparent, maxWord)
	e.Toolset = plain(v.Credentials.Toolset, maxWord)
	e.Effect, e.Parent = v.Writes(), clean(v.Parent, maxWord)
	e.Instance, e.ServiceVersion = clean(v.Ran.Instance, maxWord), clean(v.Ran.Version, maxWord)
	if a := v.Approval; a != nil {
		switch e.Approval = "declined"; {
		case a.Waived:
			e.Approval = "waived"
		case a.Agreed:
			e.Approval = "agreed"
		}
		e.ApprovalBy, e.ApprovalDoor = clean(a.By.Name, maxWord), a.Door
		if !a.Time.IsZero() {
			e.ApprovalTimeUnixNano = uint64(a.Time.UnixNano())
		}
	}
	if len(v.Arguments) > 0 {
		arguments, note := redact.JSON(v.Arguments, maxArguments)
		e.Arguments, e.ArgumentsNote, e.ArgumentsDigest = arguments, string(note), t.digest("arguments", v.Arguments)
	}
	if v.IdempotencyKey != "" {
		e.IdempotencyDigest = t.digest("idempotency key", []byte(v.IdempotencyKey))
	}
	return e
}

// brief says who calls what, without the client's arguments.
func (t *Trail) brief(v gateway.View) *auditv1.AuditEvent {
	return &auditv1.AuditEvent{
		Call: v.ID, TimeUnixNano: uint64(v.Received.UnixNano()), Edge: t.cfg.Edge,
		Tenant: clean(v.Principal.Tenant, maxWord), Principal: clean(v.Principal.Name, maxWord), Program: v.Principal.Program, Door: v.Door,
		Method: clean(v.Method, maxWord), Name: plain(v.Name, maxName), Service: v.Target.Service,
	}
}

// digest stands for a value that is not recorded itself. With the key one can tell
// whether two values are equal, and check a guess.
func (t *Trail) digest(what string, data []byte) []byte {
	h := t.digests.Get().(hash.Hash)
	defer t.digests.Put(h)
	h.Reset()
	_, _ = io.WriteString(h, what)
	_, _ = h.Write([]byte{0})
	_, _ = h.Write(data)
	return h.Sum(nil)
}

// maxRead bounds how much is read of a text whose beginning is recorded.
const maxRead = 32 << 10

// plain is the beginning of a client's text, without secrets.
func plain(s string, most int) string {
	return clean(redact.Text(s[:min(len(s), maxRead)]), most)
}

// clean is the beginning of a text, valid UTF-8 and without NUL, which databases refuse.
func clean(s string, most int) string {
	if len(s) > most {
		for most > 0 && !utf8.RuneStart(s[most]) {
			most--
		}
		s = s[:most] + "…"
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}
