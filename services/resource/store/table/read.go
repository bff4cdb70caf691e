package table

import (
	"bytes"
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"github.com/busbar-mcp/busbar/libs/database"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/resource/store"
)

const columns = `tenant, uri, name, title, description, mime_type, annotations, is_binary, size, revision, created, updated`

// scan reads the columns of a row, followed by more.
func scan(rows database.Rows, more ...any) (r store.Resource, err error) {
	var annotations string
	var created, updated int64
	if err := rows.Scan(append([]any{&r.Tenant, &r.URI, &r.Name, &r.Title, &r.Description, &r.MIMEType, &annotations,
		&r.Binary, &r.Size, &r.Revision, &created, &updated}, more...)...); err != nil {
		return r, err
	}
	r.Created, r.Updated = time.UnixMicro(created).UTC(), time.UnixMicro(updated).UTC()
	return r, json.Unmarshal([]byte(annotations), &r.Annotations)
}

// stat finds one resource; lock is empty or ForUpdate.
func stat(ctx context.Context, tx database.Tx, tenant, uri, lock string) (r store.Resource, err error) {
	return find(ctx, tx, `SELECT `+columns+` FROM resource WHERE tenant = $1 AND uri = $2`+lock, tenant, uri)
}

func find(ctx context.Context, tx database.Tx, statement, tenant, uri string, more ...any) (r store.Resource, err error) {
	rows, err := tx.Query(ctx, statement, tenant, uri)
	if err != nil {
		return r, err
	}
	defer rows.Close()
	if !rows.Next() {
		if err := rows.Err(); err != nil {
			return r, err
		}
		return r, store.NotFound(uri)
	}
	if r, err = scan(rows, more...); err != nil {
		return r, err
	}
	rows.Close()
	return r, rows.Err()
}

// Stat returns a resource.
func (t *Table) Stat(ctx context.Context, tenant, uri string) (r store.Resource, err error) {
	if store.CheckURI(uri) != nil {
		return r, store.NotFound(uri)
	}
	err = t.db.Read(ctx, func(ctx context.Context, tx database.Tx) error {
		r, err = stat(ctx, tx, tenant, uri, "")
		return err
	})
	return r, err
}

// Read returns a resource and its content.
func (t *Table) Read(ctx context.Context, tenant, uri string, admit func(size int64) error) (r store.Resource, c store.Content, err error) {
	if store.CheckURI(uri) != nil {
		return r, c, store.NotFound(uri)
	}
	allowed := int64(store.MaxContent)
	if admit != nil {
		allowed = store.SmallRead
	}
	for {
		err = t.db.Read(ctx, func(ctx context.Context, tx database.Tx) error {
			r, err = find(ctx, tx, `SELECT `+columns+`, CASE WHEN size <= `+strconv.FormatInt(allowed, 10)+` THEN content END
				FROM resource WHERE tenant = $1 AND uri = $2`, tenant, uri, &c.Bytes)
			return err
		})
		c.Binary = r.Binary
		if err != nil || r.Size <= allowed {
			return r, c, err
		}
		// It may have grown since it was admitted.
		if err = admit(r.Size); err != nil {
			return r, c, err
		}
		allowed = r.Size
	}
}

// List returns a page.
func (t *Table) List(ctx context.Context, tenant string, q store.Query, after string, limit int) (page []store.Resource, more bool, err error) {
	where, args := []string{`tenant = $1`, `uri > $2`}, []any{tenant, clean(after)}
	add := func(condition string, arg any) {
		args = append(args, arg)
		where = append(where, strings.ReplaceAll(condition, "?", "$"+strconv.Itoa(len(args))))
	}
	if prefix := clean(q.Prefix); prefix != "" {
		add(`uri >= ?`, prefix)
		// No URI contains that character, and none sorts after it.
		add(`uri < ?`, prefix+"\U0010FFFF")
	}
	if q.Name != "" {
		add(`names LIKE ? ESCAPE '\'`, pattern(q.Name))
	}
	words := strings.Fields(q.Text)
	if len(words) > store.MaxWords {
		return nil, false, fault.New(fault.InvalidParams, "a search has at most %d words", store.MaxWords)
	}
	for _, word := range words {
		add(`(names LIKE ? ESCAPE '\' OR about LIKE ? ESCAPE '\' OR words LIKE ? ESCAPE '\')`, pattern(word))
	}
	switch family, ok := strings.CutSuffix(clean(q.MIMEType), "*"); {
	case ok:
		add(`lower(mime_type) LIKE ? ESCAPE '\'`, strings.TrimPrefix(pattern(family), "%"))
	case q.MIMEType != "":
		add(`lower(mime_type) = ?`, strings.ToLower(family))
	}
	statement := `SELECT ` + columns + ` FROM resource WHERE ` + strings.Join(where, ` AND `) + ` ORDER BY uri LIMIT ` + strconv.Itoa(limit+1)
	err = t.db.Read(ctx, func(ctx context.Context, tx database.Tx) error {
		rows, err := tx.Query(ctx, statement, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		page = nil
		for rows.Next() {
			r, err := scan(rows)
			if err != nil {
				return err
			}
			page = append(page, r)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, false, err
	}
	if len(page) > limit {
		return page[:limit], true, nil
	}
	return page, false, nil
}

// fold makes texts equal that differ only in case, and removes characters that a text column does
// not accept.
func fold(s string) string { return clean(norm.NFC.String(cases.Fold().String(s))) }

func clean(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// pattern returns a LIKE pattern for values that contain a text.
func pattern(s string) string {
	return "%" + strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(fold(s)) + "%"
}

// searched returns the folded texts that a query searches, except the content.
func searched(r store.Resource) (names, about string) {
	return fold(r.Name + "\n" + r.Title), fold(r.Description + "\n" + r.URI)
}

// words returns the searchable part of a content.
func words(c store.Content) string {
	if c.Binary {
		return ""
	}
	b := c.Bytes[:min(len(c.Bytes), store.SearchedText)] // half a character at the end is dropped
	return fold(string(bytes.ToValidUTF8(b, nil)))
}
