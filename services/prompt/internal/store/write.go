package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/busbar-mcp/busbar/libs/database"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// Write implements Store.
func (s *onSQL) Write(ctx context.Context, c Change) (Version, error) {
	return database.WriteOnce(ctx, s.keys, c.Once, func(ctx context.Context, tx database.Tx) (Version, error) {
		made := Version{Tenant: c.Tenant, Name: c.Name, Author: c.Author, Deleted: c.Definition == nil, Made: time.Now().UTC().Truncate(time.Millisecond)}
		if err := alone(ctx, tx, c.Tenant); err != nil {
			return made, err
		}
		has, err := read(ctx, tx, c.Tenant, c.Name)
		if err != nil {
			return made, err
		}
		if err := has.admits(c); err != nil {
			return made, err
		}
		if c.Definition != nil && c.Tenant == "" {
			if err := fits(ctx, tx, c.Name, c.Entry); err != nil {
				return made, err
			}
		}
		made.Number = has.version + 1
		if err := put(ctx, tx, made, c.Definition, c.Listed, has.starter, c.Entry); err != nil {
			return made, err
		}
		if c.Definition == nil {
			if err := forget(ctx, tx, c.Tenant); err != nil {
				return made, err
			}
		}
		if c.Tenant != "" {
			return made, s.makeRoom(ctx, tx, c.Tenant, c.Definition != nil)
		}
		return made, nil
	})
}

// present is the current state of a prompt; version 0 if it does not exist.
type present struct {
	version int64
	deleted bool
	starter bool
}

func read(ctx context.Context, tx database.Tx, tenant, name string) (p present, err error) {
	var deleted, starter int
	_, err = database.One(ctx, tx, "SELECT version, deleted, starter FROM prompt WHERE tenant = $1 AND name = $2", []any{tenant, name}, &p.version, &deleted, &starter)
	p.deleted, p.starter = deleted != 0, starter != 0
	return p, err
}

// admits refuses a change that is based on another version than the current one.
func (p present) admits(c Change) error {
	there := p.version > 0 && !p.deleted
	data := fmt.Appendf(nil, `{"version":%d}`, p.version)
	switch {
	case !there && c.Seen != 0:
		return unknown(c.Name)
	case there && c.Seen == 0:
		return fault.New(fault.Conflict, "Prompt %s already exists in version %d; update it, or choose another name", c.Name, p.version).With(data)
	case there && c.Seen != p.version:
		return fault.New(fault.Conflict, "Prompt %s now has version %d, not %d; read it and repeat your change", c.Name, p.version, c.Seen).With(data)
	}
	return nil
}

// fits requires that the shared prompts, including this one, fit the bus.
func fits(ctx context.Context, tx database.Tx, name string, entry int) error {
	var count, size int
	if _, err := database.One(ctx, tx, "SELECT count(*), CAST(coalesce(sum(entry), 0) AS bigint) FROM prompt WHERE tenant = '' AND deleted = 0 AND name <> $1", []any{name}, &count, &size); err != nil {
		return err
	}
	switch {
	case count+1 > MaxPrompts:
		return notFits("it has %d prompts; the limit is %d", count, MaxPrompts)
	case size+entry > MaxCatalogue:
		return notFits("names, descriptions and arguments would have %d bytes; the limit is %d", size+entry, MaxCatalogue)
	}
	return nil
}

// put writes a version, and drops the oldest ones.
func put(ctx context.Context, tx database.Tx, v Version, definition, listed []byte, starter bool, entry int) error {
	var text, inLists sql.NullString
	size := 0
	deleted := 1
	if definition != nil {
		text, deleted = sql.NullString{String: string(definition), Valid: true}, 0
	}
	if v.Tenant != "" {
		size = len(definition)
		inLists = sql.NullString{String: string(listed), Valid: definition != nil}
	}
	brought := 0
	if starter {
		brought = 1
	}
	if _, err := tx.Exec(ctx, `INSERT INTO prompt (tenant, name, version, deleted, starter, entry, listed, size) VALUES ($1, $2, $3, $4, $5, $6, $7, 0)
		ON CONFLICT (tenant, name) DO UPDATE SET version = excluded.version, deleted = excluded.deleted, starter = excluded.starter,
			entry = excluded.entry, listed = excluded.listed`,
		v.Tenant, v.Name, v.Number, deleted, brought, entry, inLists); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "INSERT INTO prompt_version (tenant, name, version, definition, author, made, size) VALUES ($1, $2, $3, $4, $5, $6, $7)",
		v.Tenant, v.Name, v.Number, text, v.Author, v.Made.UnixMilli(), size); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "DELETE FROM prompt_version WHERE tenant = $1 AND name = $2 AND version <= $3", v.Tenant, v.Name, v.Number-KeptVersions); err != nil {
		return err
	}
	return count(ctx, tx, v.Tenant, v.Name)
}

// count stores the total size of a prompt's versions.
func count(ctx context.Context, tx database.Tx, tenant, name string) error {
	_, err := tx.Exec(ctx, `UPDATE prompt SET size = (SELECT CAST(coalesce(sum(size), 0) AS bigint) FROM prompt_version WHERE tenant = $1 AND name = $2)
		WHERE tenant = $1 AND name = $2`, tenant, name)
	return err
}

// forget drops the prompts of a tenant that were deleted longest ago. It keeps deleted
// starters: without the record they would come back.
func forget(ctx context.Context, tx database.Tx, tenant string) error {
	_, err := tx.Exec(ctx, `DELETE FROM prompt WHERE tenant = $1 AND name IN (
		SELECT p.name FROM prompt p JOIN prompt_version v ON v.tenant = p.tenant AND v.name = p.name AND v.version = p.version
		WHERE p.tenant = $1 AND p.deleted = 1 AND p.starter = 0 ORDER BY v.made DESC, p.name LIMIT 1000000 OFFSET $2)`, tenant, KeptDeleted)
	return err
}

// Seed implements Store.
func (s *onSQL) Seed(ctx context.Context, starters []Starter) error {
	err := s.db.Write(ctx, func(ctx context.Context, tx database.Tx) error {
		if err := alone(ctx, tx, ""); err != nil {
			return err
		}
		changed := false
		for _, b := range starters {
			due, number, err := behind(ctx, tx, b)
			if err != nil {
				return err
			}
			if !due {
				continue
			}
			if err := fits(ctx, tx, b.Name, b.Entry); err != nil {
				continue // a full catalogue does not stop the service from starting
			}
			changed = true
			v := Version{Name: b.Name, Number: number + 1, Author: StarterAuthor, Made: time.Now()}
			if err := put(ctx, tx, v, b.Definition, nil, true, b.Entry); err != nil {
				return err
			}
		}
		if !changed {
			return errNothing
		}
		return nil
	})
	if errors.Is(err, errNothing) {
		return nil
	}
	return err
}

// behind reports whether a starter is missing or out of date. A definition that the
// prompt had before is older, so an older release does not bring its own back.
func behind(ctx context.Context, tx database.Tx, b Starter) (bool, int64, error) {
	has, err := read(ctx, tx, "", b.Name)
	if err != nil || has.version == 0 {
		return err == nil, 0, err
	}
	var author string
	var had int
	if _, err := database.One(ctx, tx, "SELECT author FROM prompt_version WHERE tenant = '' AND name = $1 AND version = $2", []any{b.Name, has.version}, &author); err != nil {
		return false, 0, err
	}
	if _, err := database.One(ctx, tx, "SELECT count(*) FROM prompt_version WHERE tenant = '' AND name = $1 AND definition = $2", []any{b.Name, string(b.Definition)}, &had); err != nil {
		return false, 0, err
	}
	return !has.deleted && has.starter && author == StarterAuthor && had == 0, has.version, nil
}
