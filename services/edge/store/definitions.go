package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/services/edge/definition"
)

// Definitions are the definitions of tools: those that edges have seen last, so that one edge
// reports each change, and those that an operator has accepted. The accepted ones have a bucket
// of their own: no edge may write it, and services cannot fill it.
type Definitions struct{ seen, accepted *bus.Bucket }

// NewDefinitions opens the store.
func NewDefinitions(conn *bus.Conn) *Definitions {
	return &Definitions{conn.Bucket(bus.DefinitionsBucket), conn.Bucket(bus.AcceptedBucket)}
}

// seen is the prefix of the keys of seen definitions.
const seen = "seen."

// keyOfTool is the key of a tool's name, which may have any characters.
func keyOfTool(tool string) string {
	sum := sha256.Sum256([]byte(tool))
	return hex.EncodeToString(sum[:16])
}

// Seen visits the definitions that edges have seen last. Malformed ones are left out.
func (s *Definitions) Seen(ctx context.Context, f func(definition.Definition, int)) error {
	return each(ctx, s.seen, seen, f)
}

// Accepted visits the accepted definitions.
func (s *Definitions) Accepted(ctx context.Context, f func(definition.Definition)) error {
	return each(ctx, s.accepted, "", func(d definition.Definition, _ int) { f(d) })
}

func each(ctx context.Context, b *bus.Bucket, begins string, f func(d definition.Definition, bytes int)) error {
	return b.Each(ctx, begins, func(key string, value []byte) {
		var d definition.Definition
		if json.Unmarshal(value, &d) == nil && strings.TrimPrefix(key, begins) == keyOfTool(d.Tool) {
			f(d, len(value))
		}
	})
}

// FindAccepted returns the accepted definition of a tool; ErrNoKey for none.
func (s *Definitions) FindAccepted(ctx context.Context, tool string) (d definition.Definition, err error) {
	raw, err := s.accepted.Get(ctx, keyOfTool(tool))
	if err == nil {
		err = json.Unmarshal(raw, &d)
	}
	return d, err
}

// See keeps a definition as the last that was seen of its tool. fresh reports whether this call
// did so, and not another edge; before is the previous definition, without a digest if nothing
// was seen before.
func (s *Definitions) See(ctx context.Context, d definition.Definition) (before definition.Definition, fresh bool, err error) {
	value, err := json.Marshal(d)
	if err != nil {
		return before, false, err
	}
	key := seen + keyOfTool(d.Tool)
	err = bus.Swap(func() (bool, error) {
		before, fresh = definition.Definition{}, false
		raw, revision, err := s.seen.Look(ctx, key)
		if err != nil {
			return false, err
		}
		if revision > 0 && json.Unmarshal(raw, &before) != nil {
			before = definition.Definition{} // to be written over
		}
		if before.Digest == d.Digest {
			return true, nil
		}
		now, err := s.seen.Replace(ctx, key, value, revision)
		fresh = now > 0
		return fresh, err
	})
	return before, fresh && err == nil, err
}

// Forget removes the seen definition of a tool.
func (s *Definitions) Forget(ctx context.Context, tool string) error {
	return s.seen.Delete(ctx, seen+keyOfTool(tool))
}

// Accept keeps a definition as the accepted one of its tool.
func (s *Definitions) Accept(ctx context.Context, d definition.Definition) error {
	value, err := json.Marshal(d)
	if err != nil {
		return err
	}
	return s.accepted.Put(ctx, keyOfTool(d.Tool), value)
}
