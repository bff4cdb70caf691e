package auditlog

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	auditv1 "github.com/busbar-mcp/busbar/gen/busbar/audit/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/internal/subject"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// DeadStream keeps messages that nobody could handle. If it is full, it refuses more: the events
// stay in Stream, where edges notice that it fills, and no earlier event is deleted.
var DeadStream = jetstream.StreamConfig{
	Name: "DLQ", Description: "messages that nobody could handle", Subjects: []string{subject.Deads},
	Storage: jetstream.FileStorage, MaxAge: 30 * 24 * time.Hour, MaxBytes: 64 << 20, Discard: jetstream.DiscardNew, AllowDirect: true,
}

const (
	deadKind = "audit"
	// originHeader is the header with the subject on which an event arrived, which identifies its
	// edge.
	originHeader = "Busbar-Subject"
	// deadTime limits the time for one message to or from the stream.
	deadTime = 5 * time.Second
	// maxLetters and letterBytes bound what one Read returns.
	maxLetters  = 500
	letterBytes = 4 << 20
)

// bury puts an event aside in DeadStream. Repeating it stores nothing twice.
func (d *Delivery) bury(ctx context.Context, why error) error {
	m := d.from
	dead := nats.NewMsg(subject.Dead(deadKind))
	dead.Data = d.data
	dead.Header.Set(originHeader, m.msg.Subject)
	dead.Header.Set("Busbar-Tries", strconv.FormatUint(m.tries, 10))
	dead.Header.Set("Busbar-Error", header(why.Error()))
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deadTime)
	defer cancel()
	sum := sha256.Sum256(d.data)
	_, err := m.reader.conn.JetStream().PublishMsg(ctx, dead, jetstream.WithMsgID(fmt.Sprintf("audit %d %x", m.seq, sum[:8])))
	return err
}

// Dead gives access to the events that were put aside. It may be used from many goroutines.
type Dead struct{ conn *bus.Conn }

// DeadOf returns the dead letters of a bus.
func DeadOf(conn *bus.Conn) *Dead { return &Dead{conn} }

// Letter is one event that was put aside.
type Letter struct {
	// Seq is its number in DeadStream.
	Seq uint64
	// Event is nil and Err says why if no event of the trail can be read from it.
	Event *auditv1.AuditEvent
	Err   error
}

// Read returns events in the order in which they were put aside, beginning after the sequence
// number after: at most 500 and 4 MiB. more is set if there are more. The error is a *fault.Error
// with reason Unavailable.
func (d *Dead) Read(ctx context.Context, after uint64) (letters []Letter, more bool, err error) {
	bytes := 0
	err = d.conn.Fetch(ctx, DeadStream.Name, bus.Query{Seq: after + 1, Subject: subject.Dead(deadKind)}, func(msg *nats.Msg, seq uint64) bool {
		if more = len(letters) == maxLetters || bytes >= letterBytes; more {
			return false
		}
		l := Letter{Seq: seq}
		l.Event, l.Err = event(msg.Data, msg.Header.Get(originHeader))
		letters, bytes = append(letters, l), bytes+len(msg.Data)
		return true
	})
	if err != nil {
		return nil, false, notRead(err)
	}
	return letters, more, nil
}

// Forget removes events from the stream by their numbers, at most 500. A missing event is not an
// error. Only a user in the account of the stream, such as an edge, may call it. JetStream does not
// delete for another account. The error is a *fault.Error.
func (d *Dead) Forget(ctx context.Context, seqs []uint64) error {
	if len(seqs) > maxLetters {
		return fault.New(fault.Internal, "%d messages of stream %s are to be deleted at once; at most %d are allowed", len(seqs), DeadStream.Name, maxLetters)
	}
	for _, seq := range seqs {
		if err := d.forget(ctx, seq); err != nil {
			return err
		}
	}
	return nil
}

func (d *Dead) forget(ctx context.Context, seq uint64) error {
	ctx, cancel := context.WithTimeout(ctx, deadTime)
	defer cancel()
	msg, err := d.conn.NATS().RequestWithContext(ctx, subject.Delete(DeadStream.Name), fmt.Appendf(nil, `{"seq":%d,"no_erase":true}`, seq))
	if err != nil {
		return notRead(err)
	}
	var answer struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(msg.Data, &answer); err != nil {
		return notRead(err)
	}
	if answer.Error != nil && answer.Error.ErrorCode != noSequence && answer.Error.Description != noMessage {
		return notRead(answer.Error)
	}
	return nil
}

// JetStream reports a missing message in two ways: a cluster with this code, a single server with a
// general code and this text.
const (
	noSequence = 10043
	noMessage  = "no message found"
)

func notRead(err error) error {
	return fault.New(fault.Unavailable, "stream %s does not answer; try again shortly", DeadStream.Name).Because(err)
}

// errOtherEdge rejects an event that names a different edge than the one whose subject it arrived
// on: a user that may publish as one edge cannot write for another.
var errOtherEdge = errors.New("it is not of the edge that sent it")

// event reads an event that arrived on the subject from.
func event(data []byte, from string) (*auditv1.AuditEvent, error) {
	e := &auditv1.AuditEvent{}
	switch err := proto.Unmarshal(data, e); {
	case err != nil:
		return nil, err
	case e.Id == "":
		return nil, errors.New("it has no id")
	case e.Edge != subject.AuditOf(from):
		return nil, fmt.Errorf("%w: it says that it is of edge %.64q", errOtherEdge, e.Edge)
	}
	return e, nil
}
