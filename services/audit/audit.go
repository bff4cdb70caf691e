// Package audit is the service that keeps the audit trail. It takes the events that edges
// record from the bus, writes them to a database, signs checkpoints of each chain, and
// answers questions about the trail. It offers nothing to MCP clients.
//
// writer.go moves events into the trail, keeper.go signs and removes, query.go answers.
// The package trail has the trail itself: start there.
package audit

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"time"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/database"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/audit/internal/table"
	"github.com/busbar-mcp/busbar/services/audit/trail"
)

// Defaults.
const (
	DefaultRetention  = 90 * 24 * time.Hour
	DefaultCheckpoint = time.Minute
	pruneEvery        = time.Hour
)

// Env says where the trail is kept, in audit.db if it is a file, and how.
type Env struct {
	service.DataEnv
	// Key signs checkpoints: the 32 bytes of an Ed25519 seed in base64. Empty: the
	// one in audit.key in the data directory, made if it is missing. Each instance
	// may have its own.
	Key string `env:"BUSBAR_AUDIT_KEY" secret:"" hidden:"" placeholder:"BASE64" help:"Key to sign with: 32 random bytes in base64. Without it, audit.key in the data directory."`
	// Retention is how long rows are kept. Zero is DefaultRetention, less is
	// forever.
	Retention time.Duration `default:"2160h" env:"BUSBAR_AUDIT_RETENTION" placeholder:"TIME" help:"How long events are kept; negative is forever (default ${default}, 90 days)."`
	// Checkpoint is how often the ends of chains are signed: what an intruder does
	// to rows that are younger is not found. Zero is DefaultCheckpoint.
	Checkpoint time.Duration `kong:"-"`
	// AckWait is how long after the death of an instance another one takes what it
	// had; zero is 30 s.
	AckWait time.Duration `kong:"-"`
}

// New opens the database, waiting for it until ctx ends, brings its tables up to
// date, and makes the service "audit".
func New(ctx context.Context, env Env) (*service.Service, error) {
	if env.Retention == 0 {
		env.Retention = DefaultRetention
	}
	if env.Checkpoint <= 0 {
		env.Checkpoint = DefaultCheckpoint
	}
	s := service.New("audit", service.WithVersion(env.Version), service.WithLogger(env.Log), service.WithDescription("keeps the audit trail"), service.WithConcurrency(8))
	key, err := env.key()
	if err != nil {
		return nil, err
	}
	kept, err := table.Open(ctx, database.Config{URL: env.DatabaseURL, File: env.File("audit.db")})
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	s.OnStop(kept.Close)
	s.Check("database", kept.Away)
	s.AddMetrics(kept.Figures()...)
	id, err := kept.StoreID(ctx)
	if err != nil {
		s.Close()
		return nil, err
	}
	s.SetStore(id)
	witness := newWitness(key, s.Logger())
	w := &writer{store: kept, log: s.Logger(), ackWait: env.AckWait}
	s.Check("trail", w.away)
	k := keeper{store: kept, witness: witness, sign: trail.SignWith(key), checkpointEvery: env.Checkpoint, retention: env.Retention, log: s.Logger()}
	q := &questions{store: kept, away: w.away, witness: witness, log: s.Logger()}
	s.Go(w.run)
	s.Go(k.run)
	s.Go(q.run)
	s.Handle(bus.AuditQuery, q.answer)
	return s, nil
}

func (e Env) key() (ed25519.PrivateKey, error) {
	switch file := e.File("audit.key"); {
	case e.Key != "":
		return parseKey(e.Key)
	case file != "":
		return loadKey(file)
	}
	return nil, errors.New("the audit service needs a directory for its key, or the key")
}
