package trail

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"time"
)

// Digest is a hash or a keyed digest; in JSON it is lower-case hexadecimal.
type Digest []byte

// String returns it in hexadecimal.
func (d Digest) String() string { return hex.EncodeToString(d) }

// MarshalText implements encoding.TextMarshaler.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Digest) UnmarshalText(text []byte) (err error) {
	*d, err = hex.DecodeString(string(text))
	return err
}

// Each hashed or signed value begins with its kind, so that a value of one kind is never
// accepted as another.
const (
	chainDomain      = "busbar audit chain v1\x00"
	rowDomain        = "busbar audit row v1\x00"
	checkpointDomain = "busbar audit checkpoint v1\x00"
)

// Genesis is what the first row of a tenant's chain follows.
func Genesis(tenant string) Digest {
	sum := sha256.Sum256([]byte(chainDomain + tenant))
	return sum[:]
}

// usualRow is room for most rows, on the stack.
const usualRow = 1 << 10

// HashRow is the hash of an event as row seq of its chain, after the row with hash prev:
// SHA-256 over prev, seq and every field, each with its length in front.
func HashRow(prev Digest, seq int64, e *Event) Digest {
	b := make(encoder, 0, usualRow)
	b.text(rowDomain)
	b.bytes(prev)
	b.number(seq)
	b.text(e.ID)
	b.text(e.Call)
	b.number(e.Time.UnixNano())
	for _, s := range []string{e.Tenant, e.Principal, e.ClientName, e.ClientVersion, e.Door, e.Method, e.Name, e.Service} {
		b.text(s)
	}
	b.bytes(e.Arguments)
	b.text(e.ArgumentsNote)
	b.bytes(e.ArgumentsDigest)
	b.text(e.Outcome)
	b.text(e.Executed)
	b.number(e.DurationNano)
	b.text(e.Edge)
	b.text(e.Traceparent)
	b.bytes(e.IdempotencyDigest)
	b.flag(e.Delayed)
	if more := e.more(); more != "" { // rows of earlier versions have no details
		b.text(more)
	}
	sum := sha256.Sum256(b)
	return sum[:]
}

// Next makes the row of an event of the chain's tenant after the end of the chain, and
// moves the end to it.
func (c *Chain) Next(e *Event) Row {
	c.Seq++
	r := Row{Event: *e, Seq: c.Seq}
	r.kept = e.more() // hashed and stored: written once
	r.Hash = HashRow(c.Hash, c.Seq, &r.Event)
	c.Hash = r.Hash
	return r
}

// Checkpoint is a signed statement of where a chain ended at a time.
type Checkpoint struct {
	Tenant string `json:"tenant"`
	// Seq and Hash are the number and the hash of the row.
	Seq  int64     `json:"seq"`
	Hash Digest    `json:"hash"`
	Time time.Time `json:"time"`
	// Pruned says that retention removed all rows up to this one.
	Pruned bool `json:"pruned,omitzero"`
	// Key is the public key. Signature is the Ed25519 signature of all the fields above.
	Key       Digest `json:"key"`
	Signature Digest `json:"signature"`
}

// Signer signs a checkpoint.
type Signer func(*Checkpoint)

// SignWith returns a Signer that uses a key and the current time.
func SignWith(key ed25519.PrivateKey) Signer {
	return func(c *Checkpoint) {
		c.Time = time.Now().UTC()
		c.Key = Digest(key.Public().(ed25519.PublicKey))
		c.Signature = ed25519.Sign(key, c.signed())
	}
}

// Trusted are the public keys that checkpoints may be signed with.
type Trusted []ed25519.PublicKey

// Signed reports whether one of the keys signed a checkpoint, and the checkpoint is
// unchanged.
func (t Trusted) Signed(c *Checkpoint) bool {
	for _, key := range t {
		if bytes.Equal(key, c.Key) {
			return ed25519.Verify(key, c.signed(), c.Signature)
		}
	}
	return false
}

func (c *Checkpoint) signed() []byte {
	var b encoder
	b.text(checkpointDomain)
	b.text(c.Tenant)
	b.number(c.Seq)
	b.bytes(c.Hash)
	b.number(c.Time.UnixNano())
	b.flag(c.Pruned)
	b.bytes(c.Key)
	return b
}

// encoder writes fields so that different fields never have the same bytes.
type encoder []byte

func (b *encoder) number(n int64) { *b = binary.BigEndian.AppendUint64(*b, uint64(n)) }
func (b *encoder) text(s string)  { b.number(int64(len(s))); *b = append(*b, s...) }
func (b *encoder) bytes(s []byte) { b.number(int64(len(s))); *b = append(*b, s...) }
func (b *encoder) flag(f bool) {
	if f {
		*b = append(*b, 1)
		return
	}
	*b = append(*b, 0)
}
