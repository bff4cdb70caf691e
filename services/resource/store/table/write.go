package table

import (
	"context"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/libs/database"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/resource/store"
)

// Create adds a resource.
func (t *Table) Create(ctx context.Context, r store.Resource, c store.Content, key database.Key) (store.Resource, error) {
	r.Size, r.Binary, r.Revision = int64(len(c.Bytes)), c.Binary, 1
	r.Created = t.now().UTC().Truncate(time.Microsecond)
	r.Updated = r.Created
	if err := r.Check(); err != nil {
		return store.Resource{}, err
	}
	if err := c.Check(); err != nil {
		return store.Resource{}, err
	}
	return database.WriteOnce(ctx, t.keys, key, func(ctx context.Context, tx database.Tx) (store.Resource, error) {
		annotations, err := encode(r.Annotations)
		if err != nil {
			return r, err
		}
		names, about := searched(r)
		// fault:write-dropped
		n, err := tx.Exec(ctx, `INSERT INTO resource
			(tenant, uri, name, title, description, mime_type, annotations, is_binary, size, revision, created, updated, names, about, words, content)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16) ON CONFLICT DO NOTHING`,
			r.Tenant, r.URI, r.Name, r.Title, r.Description, r.MIMEType, annotations, r.Binary, r.Size, r.Revision,
			r.Created.UnixMicro(), r.Updated.UnixMicro(), names, about, words(c), some(c.Bytes))
		if err != nil {
			return r, err
		}
		if n == 0 {
			present, err := stat(ctx, tx, r.Tenant, r.URI, "")
			if err != nil {
				return r, err
			}
			return r, store.Taken(r.URI, present.Revision)
		}
		if err := t.room.take(ctx, tx, r.Tenant, 1, bytesOf(r, annotations)); err != nil {
			return r, err
		}
		return r, event(ctx, tx, r, store.Created, true)
	})
}

// Update changes a resource.
func (t *Table) Update(ctx context.Context, tenant, uri string, expected int64, c store.Change, key database.Key) (store.Resource, error) {
	if c.Content != nil {
		if err := c.Content.Check(); err != nil {
			return store.Resource{}, err
		}
	}
	return database.WriteOnce(ctx, t.keys, key, func(ctx context.Context, tx database.Tx) (store.Resource, error) {
		was, err := t.expect(ctx, tx, tenant, uri, expected)
		if err != nil {
			return was, err
		}
		r := was
		before, err := encode(was.Annotations)
		if err != nil {
			return r, err
		}
		for _, f := range []struct{ field, to *string }{
			{&r.Name, c.Name}, {&r.Title, c.Title}, {&r.Description, c.Description}, {&r.MIMEType, c.MIMEType},
		} {
			if f.to != nil {
				*f.field = *f.to
			}
		}
		if c.Annotations != nil {
			r.Annotations = c.Annotations
		}
		r.Revision++
		// Times never go back, although the clocks of processes differ.
		if r.Updated = t.now().UTC().Truncate(time.Microsecond); r.Updated.Before(was.Updated) {
			r.Updated = was.Updated
		}
		set, args := "", []any(nil)
		if c.Content != nil {
			content, err := joined(ctx, tx, was, c)
			if err != nil {
				return r, err
			}
			r.Size, r.Binary = int64(len(content.Bytes)), content.Binary
			set, args = `, words = $14, content = $15`, []any{words(content), some(content.Bytes)}
		}
		if err := r.Check(); err != nil {
			return r, err
		}
		annotations, err := encode(r.Annotations)
		if err != nil {
			return r, err
		}
		names, about := searched(r)
		if _, err := tx.Exec(ctx, `UPDATE resource SET name = $3, title = $4, description = $5, mime_type = $6, annotations = $7,
			is_binary = $8, size = $9, revision = $10, updated = $11, names = $12, about = $13`+set+` WHERE tenant = $1 AND uri = $2`,
			append([]any{tenant, uri, r.Name, r.Title, r.Description, r.MIMEType, annotations,
				r.Binary, r.Size, r.Revision, r.Updated.UnixMicro(), names, about}, args...)...); err != nil {
			return r, err
		}
		if err := t.room.take(ctx, tx, tenant, 0, bytesOf(r, annotations)-bytesOf(was, before)); err != nil {
			return r, err
		}
		listed := r.Name != was.Name || r.Title != was.Title || r.Description != was.Description || r.MIMEType != was.MIMEType || c.Annotations != nil
		return r, event(ctx, tx, r, store.Updated, listed)
	})
}

// joined returns the content after a change.
func joined(ctx context.Context, tx database.Tx, was store.Resource, c store.Change) (store.Content, error) {
	if !c.Append {
		return *c.Content, nil
	}
	if c.Content.Binary != was.Binary {
		return store.Content{}, fault.New(fault.InvalidParams, "text can be appended to text only, and a blob to a blob")
	}
	var old []byte
	if _, err := database.One(ctx, tx, `SELECT content FROM resource WHERE tenant = $1 AND uri = $2`, []any{was.Tenant, was.URI}, &old); err != nil {
		return store.Content{}, err
	}
	content := store.Content{Bytes: append(old, c.Content.Bytes...), Binary: was.Binary}
	return content, content.Check()
}

// Delete removes a resource.
func (t *Table) Delete(ctx context.Context, tenant, uri string, expected int64, key database.Key) (store.Resource, error) {
	return database.WriteOnce(ctx, t.keys, key, func(ctx context.Context, tx database.Tx) (store.Resource, error) {
		r, err := t.expect(ctx, tx, tenant, uri, expected)
		if err != nil {
			return r, err
		}
		if _, err := tx.Exec(ctx, `DELETE FROM resource WHERE tenant = $1 AND uri = $2`, tenant, uri); err != nil {
			return r, err
		}
		annotations, err := encode(r.Annotations)
		if err == nil {
			err = t.room.take(ctx, tx, tenant, -1, -bytesOf(r, annotations))
		}
		if err != nil {
			return r, err
		}
		return r, event(ctx, tx, r, store.Deleted, true)
	})
}

// expect locks a resource at a revision.
func (t *Table) expect(ctx context.Context, tx database.Tx, tenant, uri string, expected int64) (store.Resource, error) {
	r, err := stat(ctx, tx, tenant, uri, t.db.ForUpdate())
	if err == nil && expected != 0 && expected != r.Revision {
		err = store.Changed(uri, expected, r.Revision)
	}
	return r, err
}

// event leaves an event in the outbox.
func event(ctx context.Context, tx database.Tx, r store.Resource, kind string, listed bool) error {
	_, err := tx.Exec(ctx, `INSERT INTO resource_event (tenant, uri, kind, revision, listed) VALUES ($1, $2, $3, $4, $5)`,
		r.Tenant, r.URI, kind, r.Revision, listed)
	return err
}

// some is never NULL.
func some(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

func encode(v any) (string, error) {
	b, err := json.Marshal(v)
	return string(b), err
}
