package database

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/libs/fault"
)

// Call is the part of a *service.Call that Once needs.
type Call interface {
	// Tool is the name of the tool that is called.
	Tool() string
	// Tenant and Principal are the owner of the key.
	Tenant() string
	Principal() string
	// IdempotencyKey is empty for a call without one.
	IdempotencyKey() string
	// Replayed is called if nothing ran because the answer comes from an earlier call.
	Replayed()
}

// Key is the idempotency key of one write. The zero value is for a write without one.
type Key struct {
	// Tenant and Caller own the key: the same key of another caller is a different key.
	Tenant, Caller, Key string
	// Digest identifies the content of the write.
	Digest []byte
	// Replayed, unless nil, is called before a write returns the answer of an earlier one.
	Replayed func()
}

// Limits of a Key, in bytes.
const (
	maxKeyText = 2048
	maxKeyName = 256
)

// KeyOf returns the key of a call with the arguments in, which marshal to JSON.
func KeyOf(call Call, in any) (Key, error) {
	if call.IdempotencyKey() == "" {
		return Key{}, nil
	}
	arguments, err := json.Marshal(in, json.Deterministic(true))
	if err != nil {
		return Key{}, err
	}
	digest := sha256.Sum256(append([]byte(call.Tool()+"\n"), arguments...))
	return Key{Tenant: column(call.Tenant(), maxKeyName), Caller: column(call.Principal(), maxKeyName), Key: call.IdempotencyKey(), Digest: digest[:], Replayed: call.Replayed}, nil
}

// column returns a text in a form that every database accepts: unchanged, or a digest if it is
// longer than most bytes or is not valid text. An unchanged text never looks like a digest.
func column(name string, most int) string {
	const mark = "\x7f"
	if len(name) <= most && utf8.ValidString(name) && !strings.ContainsAny(name, "\x00"+mark) {
		return name
	}
	digest := sha256.Sum256([]byte(name))
	return mark + hex.EncodeToString(digest[:])
}

// Once makes the change of a tool call in a transaction, once for each idempotency key of a caller.
// The key and the answer are stored in the same transaction: a repeated call returns the first
// answer and runs nothing, even if processes died in between. Set KeepsKeys on the tool, so that
// edges repeat calls whose answer was lost.
//
// in are the call's arguments; the same key with other arguments, or for another tool, is a
// *fault.Error with reason Conflict. f makes the change and returns the answer, which marshals to
// JSON. After an error of f nothing is stored, and the key stays free. f may run again after a
// failure that a repetition can resolve, as in Database.Write, and must have no effect outside of
// the transaction. A call without a key runs each time.
//
// Errors come from Database.Write. If it could not be checked whether an earlier call with the key
// ran, Executed is unknown.
func Once[Out any](ctx context.Context, k *Keys, call Call, in any, f func(context.Context, Tx) (Out, error)) (Out, error) {
	key, err := KeyOf(call, in)
	if err != nil {
		var none Out
		return none, err
	}
	return WriteOnce(ctx, k, key, f)
}

// WriteOnce is Once for code that has the key of a call but not the call, such as a store.
func WriteOnce[Out any](ctx context.Context, k *Keys, key Key, f func(context.Context, Tx) (Out, error)) (Out, error) {
	var out, none Out
	if key.Key == "" {
		err := k.db.Write(ctx, func(ctx context.Context, tx Tx) (err error) {
			out, err = f(ctx, tx)
			return err
		})
		if err != nil {
			return none, err
		}
		return out, nil
	}
	if len(key.Key) > maxKeyText || len(key.Caller) > maxKeyName || len(key.Tenant) > maxKeyName {
		return none, fault.New(fault.InvalidParams, "an idempotency key has at most %d bytes, the names of its caller and tenant at most %d each", maxKeyText, maxKeyName)
	}
	key.Key = column(key.Key, maxKeyText)
	w := &onceWriting{keys: k, key: key}
	err := w.settled(ctx, func(ctx context.Context, tx Tx) (answer []byte, err error) {
		if out, err = f(ctx, tx); err != nil {
			return nil, err
		}
		return json.Marshal(out)
	})
	switch {
	case err != nil:
		return none, err
	case w.earlier == nil:
		k.kept(key, w.size)
		return out, nil
	}
	out = none
	if err := json.Unmarshal(w.earlier, &out); err != nil {
		return none, fault.New(fault.Internal, "the answer of the earlier call with this idempotency key cannot be read").Ran(fault.Yes).Because(err)
	}
	if !w.own && key.Replayed != nil {
		key.Replayed()
	}
	return out, nil
}

// onceWriting is one write with a key.
type onceWriting struct {
	keys *Keys
	key  Key
	// at is the time of its record, in microseconds since the Unix epoch; it distinguishes the
	// write's own record from another write's.
	at int64
	// known is set once the transaction knows whether the key was used. Before that, no error may
	// say executed "no".
	known bool
	// earlier is the answer that was kept; nil if the write was made now. own is set if this write
	// stored it, in a commit without an answer.
	earlier []byte
	own     bool
	// size is how many bytes of the answer are kept.
	size int
}

const (
	// settleTime is how long a commit without an answer is repeated: as long as Postgres takes to
	// restart after a crash, and less than an edge waits.
	settleTime = 3 * time.Second
	settleWait = 50 * time.Millisecond
)

// settled makes the write. A commit without an answer is settled by a repetition: the key shows
// whether the first one was made.
func (w *onceWriting) settled(ctx context.Context, f func(context.Context, Tx) ([]byte, error)) error {
	err := w.write(ctx, f)
	if !inCommit(err) {
		return err
	}
	until := time.Now().Add(settleTime)
	for lost := err; ; {
		select {
		case <-ctx.Done():
			return lost
		case <-time.After(settleWait):
		}
		if err = w.write(ctx, f); !fault.Is(err, fault.Unavailable) {
			return err
		}
		if time.Now().After(until) {
			return lost
		}
	}
}

// inCommit reports whether a commit was not answered.
func inCommit(err error) bool { return errors.As(err, new(doubt)) }

// write is one attempt.
func (w *onceWriting) write(ctx context.Context, f func(context.Context, Tx) ([]byte, error)) error {
	k := w.keys
	err := k.db.Write(ctx, func(ctx context.Context, tx Tx) error {
		w.known, w.earlier = false, nil
		now, oldest := k.now().UnixMicro(), k.now().Add(-k.limits.Life).UnixMicro()
		// A second call with the key waits here for the first. An expired record does not count.
		n, err := tx.Exec(ctx, `INSERT INTO `+k.table+` AS old (tenant, caller, call_key, digest, answer, at) VALUES ($1, $2, $3, $4, '', $5)
			ON CONFLICT (tenant, caller, call_key) DO UPDATE SET digest = excluded.digest, answer = '', at = excluded.at WHERE old.at < $6`,
			w.key.Tenant, w.key.Caller, w.key.Key, append([]byte{}, w.key.Digest...), now, oldest) // never NULL
		if err != nil {
			return err
		}
		if n == 0 {
			return w.answered(ctx, tx)
		}
		w.known, w.at = true, now
		if err := k.admit(ctx, tx, w.key, oldest); err != nil {
			return err
		}
		answer, err := f(ctx, tx)
		if err != nil {
			return err
		}
		if !k.keeps(w.key, len(answer)) {
			answer = nil // only that it ran
		}
		w.size = len(answer)
		if _, err := tx.Exec(ctx, `UPDATE `+k.table+` SET answer = $4 WHERE tenant = $1 AND caller = $2 AND call_key = $3`,
			w.key.Tenant, w.key.Caller, w.key.Key, string(answer)); err != nil {
			return err
		}
		return k.sweep(ctx, tx, oldest)
	})
	var said *fault.Error
	if !w.known && errors.As(err, &said) && said.Executed == fault.No {
		told := *said.Ran(fault.Unknown)
		told.Message += "; whether an earlier call with this idempotency key ran is not known: ask again with the same key"
		return &told
	}
	return err
}

// answered reads the result of an earlier write with the key.
func (w *onceWriting) answered(ctx context.Context, tx Tx) error {
	var digest []byte
	var answer string
	var at int64
	found, err := One(ctx, tx, `SELECT digest, answer, at FROM `+w.keys.table+` WHERE tenant = $1 AND caller = $2 AND call_key = $3`,
		[]any{w.key.Tenant, w.key.Caller, w.key.Key}, &digest, &answer, &at)
	switch {
	case err != nil:
		return err
	case !found: // forgotten in this moment
		return fault.New(fault.Unavailable, "the earlier call with this idempotency key is just being forgotten; ask again")
	}
	w.known = true
	switch {
	case !bytes.Equal(digest, w.key.Digest):
		return fault.New(fault.Conflict, "the idempotency key was used for another call; take a new key for each call")
	case answer == "":
		return fault.New(fault.ResultTooLarge, "the call with this idempotency key ran, and its result is too large to be kept, or there was no room to keep it")
	}
	w.earlier, w.own = []byte(answer), w.at == at
	return nil
}
