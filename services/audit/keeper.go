package audit

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/services/audit/trail"
)

// keeper signs checkpoints of the chains, and removes rows that are too old.
type keeper struct {
	store           trail.Store
	witness         *witness
	sign            trail.Signer
	checkpointEvery time.Duration
	retention       time.Duration
	log             *slog.Logger

	// signed are the last checkpoints that the witness has yet to keep, by tenant. The
	// database has them already, so nothing makes them a second time.
	signed map[string]trail.Checkpoint
}

// run is for service.Service.Go.
func (k *keeper) run(ctx context.Context, conn *bus.Conn) error {
	if err := k.witness.open(ctx, conn); err != nil {
		return err
	}
	sign := time.NewTicker(k.checkpointEvery)
	defer sign.Stop()
	prune := time.NewTicker(pruneEvery)
	defer prune.Stop()
	k.prune(ctx)
	k.signed = map[string]trail.Checkpoint{}
	for {
		select {
		case <-sign.C:
			k.checkpoint(ctx)
		case <-prune.C:
			k.prune(ctx)
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			k.checkpoint(last)
			cancel()
			return nil
		}
	}
}

func (k *keeper) checkpoint(ctx context.Context) {
	lost := k.witness.restore(ctx)
	made, err := k.store.Checkpoint(ctx, k.sign)
	err = errors.Join(lost, err)
	for _, c := range made {
		k.signed[c.Tenant] = c
	}
	for tenant, c := range k.signed {
		kept := k.witness.keep(ctx, k.store, &c)
		if kept == nil || errors.Is(kept, errAltered) {
			delete(k.signed, tenant)
		}
		err = errors.Join(err, kept)
	}
	if err != nil && ctx.Err() == nil {
		k.log.Error("the audit trail is not signed as it should be", "error", err)
	}
}

func (k *keeper) prune(ctx context.Context) {
	if k.retention < 0 {
		return
	}
	n, err := k.store.Prune(ctx, time.Now().Add(-k.retention), k.sign)
	if err != nil && ctx.Err() == nil {
		k.log.Error("old audit rows are not removed", "error", err)
	}
	if n > 0 {
		k.log.Info("old audit rows removed", "rows", n)
	}
}

// witness keeps the last checkpoint of each chain outside the database, with the public
// keys of all signers. Somebody who can write to only one of the two places is found out.
type witness struct {
	key ed25519.PublicKey
	log *slog.Logger

	// opened is closed when bucket is set.
	opened chan struct{}
	bucket *bus.Bucket

	// The entries that were seen in the bucket or put there, by key. If the bus loses
	// one, it is put again.
	mu   sync.Mutex
	seen map[string][]byte
}

const (
	headPrefix = "head."
	keyPrefix  = "key."
)

func newWitness(key ed25519.PrivateKey, log *slog.Logger) *witness {
	return &witness{key: key.Public().(ed25519.PublicKey), log: log, opened: make(chan struct{}), seen: map[string][]byte{}}
}

// open waits for the bucket, which an edge makes, and puts the key there.
func (w *witness) open(ctx context.Context, conn *bus.Conn) error {
	bucket := conn.Bucket(bus.AuditBucket)
	for told := false; ; {
		_, err := bucket.Shared(ctx, keyPrefix+short(w.key), w.key)
		if err == nil {
			break
		}
		if !told {
			told = true
			w.log.Warn("waiting for the bucket of checkpoints; an edge makes it: start one", "error", err)
		}
		select {
		case <-time.After(250 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	w.note(keyPrefix+short(w.key), w.key)
	w.bucket = bucket
	if _, err := w.read(ctx); err != nil {
		return err
	}
	close(w.opened)
	return nil
}

func (w *witness) note(key string, value []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen[key] = value
}

// read remembers the entries that the bucket has, and returns those that it had and has
// lost.
func (w *witness) read(ctx context.Context) (lost map[string][]byte, err error) {
	w.mu.Lock()
	lost = maps.Clone(w.seen)
	w.mu.Unlock()
	for _, prefix := range []string{keyPrefix, headPrefix} {
		err := w.bucket.Each(ctx, prefix, func(key string, value []byte) {
			delete(lost, key)
			w.note(key, value)
		})
		if err != nil {
			return nil, err
		}
	}
	return lost, nil
}

// restore puts entries again that the bucket has lost, for example with its disk. Without
// the keys no signature could be checked.
func (w *witness) restore(ctx context.Context) error {
	lost, err := w.read(ctx)
	if err != nil || len(lost) == 0 {
		return err
	}
	w.log.Warn("the bus has lost keys and checkpoints of the audit trail; they are put again", "bucket", bus.AuditBucket, "values", len(lost))
	for key, value := range lost {
		// Unless another instance was faster.
		if _, err := w.bucket.Create(ctx, key, value); err != nil {
			return err
		}
	}
	return nil
}

// short is a key of the bucket for any bytes.
func short(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

// keep makes a checkpoint the last one of its chain. If the chain is not the one that was
// seen before, it leaves the earlier checkpoint in place as evidence.
func (w *witness) keep(ctx context.Context, s trail.Store, c *trail.Checkpoint) error {
	value, err := json.Marshal(c)
	if err != nil {
		return err
	}
	key := headPrefix + short([]byte(c.Tenant))
	if _, err := w.bucket.Shared(ctx, key, value); err != nil {
		return err
	}
	err = w.bucket.Change(ctx, key, func(old []byte) ([]byte, error) {
		var before trail.Checkpoint
		if err := json.Unmarshal(old, &before); err != nil {
			return value, nil // the checkpoint adds nothing
		}
		if before.Seq > c.Seq {
			// Another instance was faster, or the chain has lost its end. In the latter
			// case the later checkpoint will say so.
			return nil, w.follows(ctx, s, &before, errOlder)
		}
		return value, w.follows(ctx, s, &before, nil)
	})
	switch {
	case errors.Is(err, errOlder):
		return nil
	case err == nil:
		w.note(key, value)
	}
	return err
}

var (
	errOlder   = errors.New("a later checkpoint is kept")
	errAltered = errors.New("the database was restored from an older copy, or tampered with")
)

// follows returns then if the chain still has the row of a checkpoint, or had it
// until retention removed it.
func (w *witness) follows(ctx context.Context, s trail.Store, before *trail.Checkpoint, then error) error {
	rows, err := s.Rows(ctx, before.Tenant, before.Seq-1, 1)
	if err != nil {
		return err
	}
	if len(rows) == 1 && rows[0].Seq == before.Seq && bytes.Equal(rows[0].Hash, before.Hash) {
		return then
	}
	pruned, err := s.Pruned(ctx, before.Tenant)
	if err != nil {
		return err
	}
	if pruned != nil && pruned.Seq >= before.Seq {
		return then
	}
	return fmt.Errorf("row %d of tenant %q is not the one that was signed at %s: %w; run \"busbar audit verify\"",
		before.Seq, before.Tenant, before.Time.Format(time.RFC3339), errAltered)
}

// all returns the entries of the bucket, including those that the bus has lost.
func (w *witness) all(ctx context.Context) (trusted trail.Trusted, heads []trail.Checkpoint, err error) {
	select {
	case <-w.opened:
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	if _, err := w.read(ctx); err != nil {
		return nil, nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, value := range w.seen {
		var c trail.Checkpoint
		switch {
		case strings.HasPrefix(key, keyPrefix) && len(value) == ed25519.PublicKeySize:
			trusted = append(trusted, ed25519.PublicKey(value))
		case strings.HasPrefix(key, headPrefix) && json.Unmarshal(value, &c) == nil:
			heads = append(heads, c)
		}
	}
	return trusted, heads, nil
}
