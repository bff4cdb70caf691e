package trail

import "time"

// Columns are the columns of table audit_event, in the order of Values and ScanRow.
var Columns = []string{
	"tenant", "seq", "id", "call", "time", "principal", "client_name", "client_version", "door", "method", "name", "service",
	"arguments", "arguments_note", "arguments_digest", "outcome", "executed", "duration", "edge", "traceparent",
	"idempotency_digest", "delayed", "hash", "more",
}

// Values are the values that a database keeps of a row.
func (r *Row) Values() []any {
	return []any{
		r.Tenant, r.Seq, r.ID, r.Call, r.Time.UnixNano(), r.Principal, r.ClientName, r.ClientVersion, r.Door, r.Method, r.Name, r.Service,
		string(r.Arguments), r.ArgumentsNote, r.ArgumentsDigest.Blob(), r.Outcome, r.Executed, r.DurationNano, r.Edge, r.Traceparent,
		r.IdempotencyDigest.Blob(), r.Delayed, r.Hash.Blob(), r.more(),
	}
}

// Blob is the digest as databases keep it: never NULL.
func (d Digest) Blob() []byte {
	if d == nil {
		return []byte{}
	}
	return d
}

// ScanRow reads what Values made.
func ScanRow(scan func(into ...any) error) (r Row, err error) {
	var (
		at        int64
		arguments []byte
		more      string
	)
	err = scan(&r.Tenant, &r.Seq, &r.ID, &r.Call, &at, &r.Principal, &r.ClientName, &r.ClientVersion, &r.Door, &r.Method, &r.Name, &r.Service,
		&arguments, &r.ArgumentsNote, (*[]byte)(&r.ArgumentsDigest), &r.Outcome, &r.Executed, &r.DurationNano, &r.Edge, &r.Traceparent,
		(*[]byte)(&r.IdempotencyDigest), &r.Delayed, (*[]byte)(&r.Hash), &more)
	r.setMore(more)
	if r.Time = time.Unix(0, at).UTC(); len(arguments) > 0 {
		r.Arguments = arguments
	}
	return r, err
}

// ScanChain reads tenant, seq and hash of table audit_chain.
func ScanChain(scan func(into ...any) error) (c Chain, err error) {
	err = scan(&c.Tenant, &c.Seq, (*[]byte)(&c.Hash))
	return c, err
}

// CheckpointColumns are the columns of table audit_checkpoint, in the order of Values and
// ScanCheckpoint.
const CheckpointColumns = "tenant, seq, pruned, hash, time, key, signature"

// Values are the values that a database keeps of a checkpoint.
func (c *Checkpoint) Values() []any {
	return []any{c.Tenant, c.Seq, c.Pruned, c.Hash.Blob(), c.Time.UnixNano(), c.Key.Blob(), c.Signature.Blob()}
}

// ScanCheckpoint reads what Values made.
func ScanCheckpoint(scan func(into ...any) error) (c Checkpoint, err error) {
	var at int64
	err = scan(&c.Tenant, &c.Seq, &c.Pruned, (*[]byte)(&c.Hash), &at, (*[]byte)(&c.Key), (*[]byte)(&c.Signature))
	c.Time = time.Unix(0, at).UTC()
	return c, err
}
