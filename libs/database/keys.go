package database

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/busbar-mcp/busbar/libs/fault"
)

// KeyLimits bound the idempotency keys that are kept.
type KeyLimits struct {
	// Life is how long a key is kept; 0 is 24 hours.
	Life time.Duration
	// Keys is how many keys one tenant may have, Bytes how many bytes their answers may use; 0
	// means unlimited. One caller may have half of either. Beyond Keys, a write with a new key is
	// refused as RateLimited; beyond Bytes, only the fact that the call ran is kept. Each process
	// counts the keys of others every ten minutes.
	Keys, Bytes int64
}

// DefaultKeyLimits suit most services.
var DefaultKeyLimits = KeyLimits{Life: 24 * time.Hour, Keys: 500_000, Bytes: 1 << 30}

const (
	// maxAnswer is the largest answer that is kept, bytes, as edges keep it.
	//limit:kept answer of a keyed write that `database.Once` keeps | only that the call ran is kept
	maxAnswer = 96 << 10
	// keysCounted is how long a count is used, with this process's own keys added.
	keysCounted = 10 * time.Minute
	// maxKeysCounted bounds the parties whose counts are remembered.
	maxKeysCounted = 8192
	// One in sweepEvery writes deletes up to sweepMost expired keys. That is more than were added
	// meanwhile, so expired keys never pile up.
	sweepEvery = 64
	sweepMost  = 256
)

// Keys are the idempotency keys of one owner's writes, with their answers, in the table
// OWNER_call of its database.
type Keys struct {
	db     Database
	table  string
	limits KeyLimits
	now    func() time.Time

	mu     sync.Mutex
	writes int
	// counts are the keys and bytes of tenants, and of callers within them.
	counts map[keyParty]*keyCount
}

// keyParty is a caller of a tenant, or with all set the whole tenant.
type keyParty struct {
	tenant, caller string
	all            bool
}

type keyCount struct {
	keys, bytes int64
	at          time.Time
}

// OpenKeys creates the table of an owner's keys if needed. Any number of processes may call it
// concurrently.
func OpenKeys(ctx context.Context, db Database, owner string, limits KeyLimits) (*Keys, error) {
	if limits.Life <= 0 {
		limits.Life = DefaultKeyLimits.Life
	}
	k := &Keys{db: db, table: owner + "_call", limits: limits, now: time.Now, counts: map[keyParty]*keyCount{}}
	text, binary := `text COLLATE "C"`, "bytea"
	if db.ForUpdate() == "" { // SQLite, which compares texts by bytes
		text, binary = "text", "blob"
	}
	err := ensure(ctx, db, []string{
		`CREATE TABLE IF NOT EXISTS ` + k.table + ` (tenant ` + text + ` NOT NULL, caller ` + text + ` NOT NULL, call_key ` + text + ` NOT NULL,
			digest ` + binary + ` NOT NULL, answer text NOT NULL, at bigint NOT NULL, PRIMARY KEY (tenant, caller, call_key))`,
		`CREATE INDEX IF NOT EXISTS ` + k.table + `_at ON ` + k.table + ` (at)`,
	}, nil)
	if err != nil {
		return nil, fmt.Errorf("idempotency keys of %s: %w", owner, err)
	}
	return k, nil
}

// parties are the tenant and the caller for which a key counts, with their part of each limit.
func (k Key) parties() map[keyParty]int64 {
	return map[keyParty]int64{{tenant: k.Tenant, all: true}: 1, {tenant: k.Tenant, caller: k.Caller}: 2}
}

// admit refuses a write with a new key if its tenant or caller has too many keys that are not older
// than a time, in the write's transaction. Expired keys do not count: only writes delete them, and
// a refused write does not.
func (k *Keys) admit(ctx context.Context, tx Tx, key Key, oldest int64) error {
	if k.limits.Keys == 0 && k.limits.Bytes == 0 {
		return nil
	}
	for party, part := range key.parties() {
		now := k.count(party)
		if now == nil {
			now = &keyCount{at: k.now()}
			where, args := "tenant = $1 AND at >= $2", []any{party.tenant, oldest}
			if !party.all {
				where, args = where+" AND caller = $3", append(args, party.caller)
			}
			if _, err := One(ctx, tx, `SELECT count(*), CAST(coalesce(sum(octet_length(answer)), 0) AS bigint) FROM `+k.table+` WHERE `+where, args, &now.keys, &now.bytes); err != nil {
				return err
			}
			now.keys-- // this one
			k.remember(party, now)
		}
		if most := k.limits.Keys / part; k.limits.Keys > 0 && now.keys >= most {
			whose := "a tenant"
			if !party.all {
				whose = "one caller"
			}
			return fault.New(fault.RateLimited, "at most %d writes with an idempotency key are remembered for %s, each for %v; write without a key, or later", most, whose, k.limits.Life)
		}
	}
	return nil
}

// keeps reports whether an answer of so many bytes is kept.
func (k *Keys) keeps(key Key, size int) bool {
	for party, part := range key.parties() {
		if now := k.count(party); k.limits.Bytes > 0 && now != nil && now.bytes+int64(size) > k.limits.Bytes/part {
			return false
		}
	}
	return size <= maxAnswer
}

// count returns a copy of a party's count; nil if it must be counted.
func (k *Keys) count(party keyParty) *keyCount {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.counts[party]
	if now == nil || k.now().Sub(now.at) > keysCounted {
		return nil
	}
	c := *now
	return &c
}

func (k *Keys) remember(party keyParty, now *keyCount) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.counts) >= maxKeysCounted {
		clear(k.counts)
	}
	c := *now
	k.counts[party] = &c
}

// kept counts a key after its write was made.
func (k *Keys) kept(key Key, size int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for party := range key.parties() {
		if now := k.counts[party]; now != nil {
			now.keys, now.bytes = now.keys+1, now.bytes+int64(size)
		}
	}
}

// sweep deletes keys that are older than a time, in the transaction of a write. It does not wait
// for another process that does the same.
func (k *Keys) sweep(ctx context.Context, tx Tx, oldest int64) error {
	k.mu.Lock()
	due := k.writes%sweepEvery == 0
	k.writes++
	k.mu.Unlock()
	if !due {
		return nil
	}
	lock := k.db.ForUpdate()
	if lock != "" {
		lock += " SKIP LOCKED"
	}
	_, err := tx.Exec(ctx, `DELETE FROM `+k.table+` WHERE (tenant, caller, call_key) IN
		(SELECT tenant, caller, call_key FROM `+k.table+` WHERE at < $1 ORDER BY at LIMIT $2`+lock+`)`, oldest, sweepMost)
	return err
}
