package storage

import (
	"context"
	"reflect"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/auditlog"
	"github.com/busbar-mcp/busbar/libs/bus/edges"
	"github.com/busbar-mcp/busbar/libs/bus/internal/subject"
	"github.com/busbar-mcp/busbar/libs/bus/registry"
	"github.com/busbar-mcp/busbar/libs/bus/task"
)

// Lifetimes of what edges keep.
const (
	// SessionTTL is how long a legacy session lives without being renewed.
	//limit:kept a session without requests | it ends
	SessionTTL = 24 * time.Hour
	// OutcomeTTL is how long an idempotency key is remembered.
	//limit:kept an idempotency key | it is forgotten
	OutcomeTTL = 24 * time.Hour
	// NameTTL is how long a name is kept for a service that is not seen.
	NameTTL = 7 * 24 * time.Hour
	// ApprovalTTL is longer than the life of anything that refers to an approval.
	ApprovalTTL = 2 * time.Hour
	// keyTTL is longer than any use of a key by edges.
	keyTTL = 48 * time.Hour
)

// stores are the buckets and streams of the bus. Age is a bucket-wide limit and
// writes are plain puts: a per-key TTL would be dropped by the next write.
var stores = []store{
	shared(jetstream.KeyValueConfig{Bucket: bus.RegistryBucket, Description: "who is there: <service>.<instance>", TTL: registry.BeatTTL, MaxValueSize: registry.MaxAnnouncement, MaxBytes: 64 << 20}, 65_536, false),
	shared(jetstream.KeyValueConfig{Bucket: bus.CatalogueBucket, Description: "what services offer: <service>.<digest>", TTL: registry.CatalogueTTL, MaxBytes: registry.MaxCatalogues}, 16_384, false),
	bucket(jetstream.KeyValueConfig{Bucket: bus.SessionsBucket, Description: "legacy MCP sessions: <id>", TTL: SessionTTL, MaxValueSize: 64 << 10, MaxBytes: 256 << 20}),
	bucket(jetstream.KeyValueConfig{Bucket: bus.StreamsBucket, Description: "answers that clients may come back for: <name>", TTL: edges.StreamTTL, MaxValueSize: 128 << 10, MaxBytes: 256 << 20}),
	bucket(jetstream.KeyValueConfig{Bucket: bus.ApprovalsBucket, Description: "calls that wait for a person, and approvals that were used", TTL: ApprovalTTL, MaxBytes: 64 << 20}),
	bucket(jetstream.KeyValueConfig{Bucket: bus.OutcomesBucket, Description: "how calls with an idempotency key ended: <digest of principal and key>", TTL: OutcomeTTL, MaxValueSize: 128 << 10, MaxBytes: 128 << 20}),
	bucket(jetstream.KeyValueConfig{Bucket: bus.KeysBucket, Description: "secrets that edges share: <use>.<period>", TTL: keyTTL, MaxValueSize: 4 << 10, MaxBytes: 1 << 20}),
	shared(jetstream.KeyValueConfig{Bucket: bus.AuditBucket, Description: "what the audit trail is checked against: head.<chain>, key.<id>; the key of its digests", MaxValueSize: 4 << 10, MaxBytes: 16 << 20}, 0, false),
	bucket(jetstream.KeyValueConfig{Bucket: bus.NamesBucket, Description: "whose a name is: <kind>.<digest of name>", TTL: NameTTL, MaxValueSize: 4 << 10, MaxBytes: 64 << 20}),
	shared(jetstream.KeyValueConfig{Bucket: bus.TasksBucket, Description: "tasks: <service>.<token>", TTL: task.Age, MaxBytes: 512 << 20}, 131_072, true),
	bucket(jetstream.KeyValueConfig{Bucket: bus.AccessBucket, Description: "API keys, by what is shown of them: key.<id>, used.<id>", MaxValueSize: 4 << 10, MaxBytes: 64 << 20}),
	bucket(jetstream.KeyValueConfig{Bucket: bus.DefinitionsBucket, Description: "what services said of their tools: seen.<digest of name>", MaxValueSize: 64 << 10, MaxBytes: 192 << 20}),
	bucket(jetstream.KeyValueConfig{Bucket: bus.AcceptedBucket, Description: "what operators accepted of tools: <digest of name>", MaxValueSize: 64 << 10, MaxBytes: 64 << 20}),
	bucket(jetstream.KeyValueConfig{Bucket: bus.LimitsBucket, Description: "which edges share the limits of accounts: edges", MaxValueSize: 64 << 10, MaxBytes: 16 << 20}),
	stream(edges.EventStream), stream(task.Stream), stream(auditlog.DeadStream),
	{name: "stream " + auditlog.Stream.Name, stream: auditlog.Stream.Name, demand: auditlog.Stream, create: auditlog.Ensure, whole: true, consumed: true},
}

// Reserved is how many bytes JetStream reserves for all stores, at each server with a copy: it
// refuses to create a store for which it has no room.
func Reserved() (bytes int64) {
	for _, s := range stores {
		bytes += s.demand.MaxBytes
	}
	return bytes
}

// store is a bucket or a stream.
type store struct {
	name string // for people
	// stream is its name as a stream of JetStream.
	stream string
	create func(ctx context.Context, conn *bus.Conn, replicas int) error
	// whole: create also updates an existing store.
	whole bool
	// demand is the minimum configuration.
	demand jetstream.StreamConfig
	// bucket is the name of a bucket; empty for a stream.
	bucket string
	// shared is set if services write it too, consumed if services read it, each its part.
	shared, consumed bool
	// keys is the most entries of a shared bucket; 0 for others.
	keys int64
}

// shared is a bucket in which services write as well, each under its own name. Rollup headers are
// denied, because one would delete the messages of all services: one message with such a header
// would remove what all others have written. keys is how many there may be, and makes edges look
// after the shares of services; 0 is for a bucket that one service writes. lives says that entries
// have a time to live of their own: NATS refuses one elsewhere, which could be longer than the
// bucket's age limit.
func shared(cfg jetstream.KeyValueConfig, keys int64, lives bool) store {
	s := bucket(cfg)
	s.shared, s.keys, s.demand.MaxMsgs, s.demand.SubjectDeleteMarkerTTL, s.demand.AllowMsgTTL = true, keys, keys, 0, lives
	made := s.demand
	made.Name, made.Subjects, made.Storage = s.stream, []string{subject.Key(cfg.Bucket, ">")}, jetstream.FileStorage
	made.Discard, made.DenyDelete, made.AllowDirect = jetstream.DiscardNew, true, true
	s.create = func(ctx context.Context, conn *bus.Conn, replicas int) error {
		made := made
		made.Replicas = replicas
		_, err := conn.JetStream().CreateStream(ctx, made)
		return err
	}
	return s
}

func bucket(cfg jetstream.KeyValueConfig) store {
	cfg.Storage, cfg.History = jetstream.FileStorage, 1
	if cfg.TTL > 0 {
		cfg.LimitMarkerTTL = time.Minute
	}
	return store{
		name: "bucket " + cfg.Bucket, stream: "KV_" + cfg.Bucket, bucket: cfg.Bucket,
		create: func(ctx context.Context, conn *bus.Conn, replicas int) error {
			cfg := cfg
			cfg.Replicas = replicas
			_, err := conn.JetStream().CreateKeyValue(ctx, cfg)
			return err
		},
		demand: jetstream.StreamConfig{
			Description: cfg.Description, MaxAge: cfg.TTL, MaxMsgsPerSubject: 1, MaxMsgSize: cfg.MaxValueSize,
			MaxBytes: cfg.MaxBytes, AllowMsgTTL: cfg.LimitMarkerTTL > 0, SubjectDeleteMarkerTTL: cfg.LimitMarkerTTL,
		},
	}
}

func stream(cfg jetstream.StreamConfig) store {
	return store{
		name: "stream " + cfg.Name, stream: cfg.Name, demand: cfg, consumed: true,
		create: func(ctx context.Context, conn *bus.Conn, replicas int) error {
			cfg := cfg
			cfg.Replicas = replicas
			_, err := conn.JetStream().CreateStream(ctx, cfg)
			return err
		},
	}
}

// adjust makes only the necessary changes to an existing store, and returns its new configuration.
func (s store) adjust(ctx context.Context, js jetstream.JetStream) (jetstream.StreamConfig, error) {
	found, err := js.Stream(ctx, s.stream)
	if err != nil {
		return jetstream.StreamConfig{}, err
	}
	now := found.CachedInfo().Config
	want := s.wants(now)
	if reflect.DeepEqual(now, want) {
		return now, nil
	}
	_, err = js.UpdateStream(ctx, want)
	return want, err
}

// wants returns the current configuration with the necessary changes.
func (s store) wants(now jetstream.StreamConfig) jetstream.StreamConfig {
	want := demanded(now, s.demand)
	if s.shared {
		want.AllowRollup, want.SubjectDeleteMarkerTTL = false, 0
	}
	return want
}

// demanded returns a configuration changed to satisfy demand. A size limit is changed only if
// demand has a larger one. Settings that would end entries which demand keeps are removed.
func demanded(now, demand jetstream.StreamConfig) jetstream.StreamConfig {
	want := now
	to, from := reflect.ValueOf(&want).Elem(), reflect.ValueOf(demand)
	for i := range from.NumField() {
		if !from.Field(i).IsZero() {
			to.Field(i).Set(from.Field(i))
		}
	}
	want.Replicas = now.Replicas
	want.MaxAge = demand.MaxAge
	if demand.MaxMsgs == 0 {
		want.MaxMsgs = -1 // as NATS says that there is no limit
	} else {
		want.MaxMsgs = max(now.MaxMsgs, demand.MaxMsgs)
	}
	want.MaxBytes = max(now.MaxBytes, demand.MaxBytes)
	if demand.MaxMsgSize > 0 {
		want.MaxMsgSize = max(now.MaxMsgSize, demand.MaxMsgSize)
	}
	return want
}
