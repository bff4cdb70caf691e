// Package trail is the audit trail as it is kept: one chain of events per tenant, each
// row bound to the one before by its hash, and signed checkpoints. Every store passes the
// suite of trailtest.
//
// Start with Store in trail.go. chain.go has the hashes and signatures, verify.go checks
// a trail, filter.go and follow.go read it.
package trail

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	auditv1 "github.com/busbar-mcp/busbar/gen/busbar/audit/v1"
)

// Event is one event of the trail; see proto/busbar/audit/v1.
type Event struct {
	ID                string         `json:"id"`
	Call              string         `json:"call"`
	Time              time.Time      `json:"time"`
	Tenant            string         `json:"tenant"`
	Principal         string         `json:"principal"`
	ClientName        string         `json:"clientName"`
	ClientVersion     string         `json:"clientVersion"`
	Door              string         `json:"door"`
	Method            string         `json:"method"`
	Name              string         `json:"name"`
	Service           string         `json:"service"`
	Arguments         jsontext.Value `json:"arguments,omitzero"`
	ArgumentsNote     string         `json:"argumentsNote,omitzero"`
	ArgumentsDigest   Digest         `json:"argumentsDigest,omitempty"`
	Outcome           string         `json:"outcome"`
	Executed          string         `json:"executed"`
	DurationNano      int64          `json:"durationNano"`
	Edge              string         `json:"edge"`
	Traceparent       string         `json:"traceparent,omitzero"`
	IdempotencyDigest Digest         `json:"idempotencyDigest,omitempty"`
	Delayed           bool           `json:"delayed,omitzero"`
	Details

	// kept is the text that a database has as the details, if it differs from what this
	// release would write: a later release wrote it, or somebody changed it.
	kept string
}

// Details are the fields that were added since the second version of the table. The table
// keeps them as one JSON object, or as the empty text if all are empty.
type Details struct {
	Effect         bool      `json:"effect,omitzero"`
	Repeated       uint32    `json:"repeated,omitzero"`
	Parent         string    `json:"parent,omitzero"`
	Approval       string    `json:"approval,omitzero"`
	ApprovalBy     string    `json:"approvalBy,omitzero"`
	ApprovalTime   time.Time `json:"approvalTime,omitzero"`
	ApprovalDoor   string    `json:"approvalDoor,omitzero"`
	Instance       string    `json:"instance,omitzero"`
	ServiceVersion string    `json:"serviceVersion,omitzero"`
	Program        bool      `json:"program,omitzero"`
	Toolset        string    `json:"toolset,omitzero"`
}

func (d *Details) text() string {
	if *d == (Details{}) {
		return ""
	}
	b, _ := json.Marshal(d, json.Deterministic(true)) // nothing in it fails
	return string(b)
}

// more is the text of the details, as it is kept and hashed.
func (e *Event) more() string {
	if e.kept != "" {
		return e.kept
	}
	return e.text()
}

// setMore reads a text that more made.
func (e *Event) setMore(text string) {
	if text != "" {
		_ = json.Unmarshal([]byte(text), &e.Details) // the hash shows whether it is right
	}
	if e.text() != text {
		e.kept = text
	}
}

// Row is an event in its chain.
type Row struct {
	Event
	// Seq counts the rows of a tenant from 1.
	Seq int64 `json:"seq"`
	// Hash covers the event, Seq and the hash of the row before.
	Hash Digest `json:"hash"`
}

// Chain is the end of a tenant's chain.
type Chain struct {
	Tenant string
	Seq    int64
	Hash   Digest
}

// Begun is the outcome of an event that says that a call has begun.
const Begun = "begun"

// ErrRejected marks an event that a store refuses because of its content. Any other error
// may be temporary.
var ErrRejected = errors.New("the store refuses this event")

// Stray is the error of a chain that cannot go on: the database has a row behind the
// chain's end, where the next row belongs. No event is at fault, so none is put aside.
type Stray struct {
	Tenant string
	// Seq and ID are the number and the event of that row, End is the number of the
	// chain's last row.
	Seq, End int64
	ID       string
}

// Error names the row, and says what to do. It is short enough for the status of an
// instance.
func (s *Stray) Error() string {
	return fmt.Sprintf("row %d of tenant %.40q (event %.40s) is behind the end of its chain, row %d: nothing is written until that row is copied and removed", s.Seq, s.Tenant, s.ID, s.End)
}

// ErrFilter marks a filter that is malformed; its text is for people.
var ErrFilter = errors.New("wrong filter")

// Store keeps the trail. It may be used concurrently, and several processes may have
// stores on one Postgres.
type Store interface {
	// Append adds events to the ends of their chains, in their order, all or none, and
	// returns how many it added: it leaves out events of the same edge with an ID that
	// the trail has. The events are durable when it returns. The error wraps ErrRejected
	// if an event is at fault; appending each event alone shows which. It is a *Stray if
	// a chain cannot go on.
	Append(ctx context.Context, events []Event) (added int, err error)
	// List returns the rows that a filter admits, newest first by time and id, and the
	// cursor of the next page, empty at the end. Rows that are added meanwhile do not
	// move a page. The error wraps ErrFilter for an invalid cursor.
	List(ctx context.Context, f Filter) (rows []Row, next string, err error)
	// Show returns the rows of a call, or the one row of an event, by id. It is not an
	// error if there are no rows.
	Show(ctx context.Context, id string) ([]Row, error)
	// Others returns how many rows there are of tenants other than the given one.
	Others(ctx context.Context, tenant string) (int64, error)
	// Chains returns the end of every chain, in the order of tenants.
	Chains(ctx context.Context) ([]Chain, error)
	// Unchained returns the tenants that have rows but no chain. Busbar never writes such
	// rows.
	Unchained(ctx context.Context) (tenants []string, err error)
	// Rows returns up to limit rows of a tenant with Seq above after, in order.
	Rows(ctx context.Context, tenant string, after int64, limit int) ([]Row, error)
	// Checkpoints returns up to limit checkpoints of a tenant with Seq above
	// after, in order.
	Checkpoints(ctx context.Context, tenant string, after int64, limit int) ([]Checkpoint, error)
	// Pruned returns the checkpoint that stands for the rows that retention removed; nil
	// if it removed nothing.
	Pruned(ctx context.Context, tenant string) (*Checkpoint, error)
	// Checkpoint adds a checkpoint for every chain that grew since its last one, and
	// returns the new checkpoints.
	Checkpoint(ctx context.Context, sign Signer) ([]Checkpoint, error)
	// Prune removes the oldest rows of every chain, up to the first row that is not
	// before a time, with their checkpoints, and leaves one checkpoint that stands for
	// them. It returns how many rows it removed.
	Prune(ctx context.Context, before time.Time, sign Signer) (int64, error)
	// Close releases the store.
	Close()
}

// FromWire is an event as an edge sent it. Text that databases refuse is made acceptable.
func FromWire(e *auditv1.AuditEvent) Event {
	arguments, note := jsontext.Value(e.Arguments), clean(e.ArgumentsNote)
	if len(arguments) == 0 {
		arguments = nil
	} else if !arguments.IsValid() {
		arguments, note = nil, "unreadable"
	}
	return Event{
		ID: clean(e.Id), Call: clean(e.Call), Time: time.Unix(0, int64(e.TimeUnixNano)).UTC(),
		Tenant: clean(e.Tenant), Principal: clean(e.Principal), ClientName: clean(e.ClientName), ClientVersion: clean(e.ClientVersion),
		Door: clean(e.Door), Method: clean(e.Method), Name: clean(e.Name), Service: clean(e.Service),
		Arguments: arguments, ArgumentsNote: note, ArgumentsDigest: e.ArgumentsDigest,
		Outcome: clean(e.Outcome), Executed: clean(e.Executed), DurationNano: int64(e.DurationNano),
		Edge: clean(e.Edge), Traceparent: clean(e.Traceparent), IdempotencyDigest: e.IdempotencyDigest, Delayed: e.Delayed,
		Details: Details{
			Effect: e.Effect, Repeated: e.Repeated, Parent: clean(e.Parent),
			Approval: clean(e.Approval), ApprovalBy: clean(e.ApprovalBy), ApprovalTime: timeOf(e.ApprovalTimeUnixNano), ApprovalDoor: clean(e.ApprovalDoor),
			Instance: clean(e.Instance), ServiceVersion: clean(e.ServiceVersion), Program: e.Program, Toolset: clean(e.Toolset),
		},
	}
}

// timeOf is a time on the wire; 0 means no time.
func timeOf(nano uint64) time.Time {
	if nano == 0 {
		return time.Time{}
	}
	return time.Unix(0, int64(nano)).UTC()
}

func clean(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}
