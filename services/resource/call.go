package resource

import (
	"context"
	"encoding/base64"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/busbar-mcp/busbar/libs/database"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/resource/store"
)

func (r *resources) create(ctx context.Context, call *service.Call, in CreateIn) (Entry, error) {
	if err := r.owned(in.URI); err != nil {
		return Entry{}, err
	}
	c, err := content(in.Text, in.Blob)
	if err != nil {
		return Entry{}, err
	}
	if c == nil {
		c = &store.Content{}
	}
	key, err := database.KeyOf(call, in)
	if err != nil {
		return Entry{}, err
	}
	if in.Name == "" {
		in.Name = path.Base(strings.TrimRight(in.URI, "/"))
		in.Name = fit(in.Name)
	}
	if in.MIMEType == "" {
		in.MIMEType = "text/plain"
		if c.Binary {
			in.MIMEType = "application/octet-stream"
		}
	}
	made, err := r.store.Create(ctx, store.Resource{
		Tenant: call.Tenant(), URI: in.URI, Name: in.Name, Title: in.Title, Description: in.Description,
		MIMEType: in.MIMEType, Annotations: in.Annotations,
	}, *c, key)
	if err != nil {
		return Entry{}, err
	}
	r.written()
	return entry(made), nil
}

func (r *resources) update(ctx context.Context, call *service.Call, in UpdateIn) (Entry, error) {
	if err := r.owned(in.URI); err != nil {
		return Entry{}, err
	}
	c, err := content(in.Text, in.Blob)
	if err != nil {
		return Entry{}, err
	}
	if in.ExpectedRevision < 0 {
		return Entry{}, fault.New(fault.InvalidParams, "expectedRevision must be at least 1")
	}
	key, err := database.KeyOf(call, in)
	if err != nil {
		return Entry{}, err
	}
	changed, err := r.store.Update(ctx, call.Tenant(), in.URI, in.ExpectedRevision, store.Change{
		Name: in.Name, Title: in.Title, Description: in.Description, MIMEType: in.MIMEType,
		Annotations: in.Annotations, Content: c, Append: in.Append,
	}, key)
	if err != nil {
		return Entry{}, err
	}
	r.written()
	return entry(changed), nil
}

func (r *resources) delete(ctx context.Context, call *service.Call, in DeleteIn) (Entry, error) {
	if err := r.owned(in.URI); err != nil {
		return Entry{}, err
	}
	key, err := database.KeyOf(call, in)
	if err != nil {
		return Entry{}, err
	}
	gone, err := r.store.Delete(ctx, call.Tenant(), in.URI, in.ExpectedRevision, key)
	if err != nil {
		return Entry{}, err
	}
	r.written()
	return entry(gone), nil
}

func (r *resources) list(ctx context.Context, call *service.Call, in ListIn) (ListOut, error) {
	return r.find(ctx, call, store.Query{Prefix: in.Prefix}, in.Cursor, in.Limit)
}

func (r *resources) search(ctx context.Context, call *service.Call, in SearchIn) (ListOut, error) {
	return r.find(ctx, call, store.Query{Prefix: in.Prefix, Name: in.Name, Text: in.Query, MIMEType: in.MIMEType}, in.Cursor, in.Limit)
}

const defaultPage = 50

func (r *resources) find(ctx context.Context, call *service.Call, q store.Query, cursor string, limit int) (ListOut, error) {
	if limit < 0 {
		return ListOut{}, fault.New(fault.InvalidParams, "limit must be at least 1")
	}
	if limit == 0 {
		limit = defaultPage
	}
	page, next, err := r.page(ctx, call.Tenant(), q, cursor, limit)
	out := ListOut{Resources: []Entry{}, NextCursor: next}
	for _, e := range page {
		out.Resources = append(out.Resources, entry(e))
	}
	return out, err
}

const (
	defaultPart = 64 << 10
	maxPart     = 1 << 20
)

func (r *resources) readPart(ctx context.Context, call *service.Call, in ReadIn) (ReadOut, error) {
	if in.Offset < 0 || in.Limit < 0 {
		return ReadOut{}, fault.New(fault.InvalidParams, "offset and limit must not be negative")
	}
	if in.Limit == 0 {
		in.Limit = defaultPart
	}
	stored, c, err := r.read(ctx, call.Tenant(), in.URI)
	if err != nil {
		return ReadOut{}, err
	}
	out := ReadOut{URI: in.URI, MIMEType: c.MIMEType}
	if stored != nil {
		out.Revision = stored.Revision
	}
	if c.Blob != nil {
		out.Size = int64(len(c.Blob))
		from, to := part(out.Size, in)
		blob := base64.StdEncoding.EncodeToString(c.Blob[from:to])
		out.Blob, out.NextOffset = &blob, next(to, out.Size)
		return out, nil
	}
	out.Size = int64(len(c.Text))
	from, to := part(out.Size, in)
	// Characters are not split: a part begins with a whole character, and a character that does not
	// fit goes into the next part.
	for from < out.Size && !utf8.RuneStart(c.Text[from]) {
		from++
	}
	for to < out.Size && to > from && !utf8.RuneStart(c.Text[to]) {
		to--
	}
	if to <= from && from < out.Size {
		_, size := utf8.DecodeRuneInString(c.Text[from:])
		to = from + int64(size)
	}
	text := c.Text[from:max(from, to)]
	out.Text, out.NextOffset = &text, next(to, out.Size)
	return out, nil
}

func part(size int64, in ReadIn) (from, to int64) {
	from = min(in.Offset, size)
	return from, min(from+int64(min(in.Limit, maxPart)), size)
}

// next is the offset at which to continue reading; 0 at the end.
func next(to, size int64) int64 {
	if to >= size {
		return 0
	}
	return to
}

// owned refuses to write resources that are not stored here.
func (r *resources) owned(uri string) error {
	if err := store.CheckURI(uri); err != nil {
		return err
	}
	if s := r.source(uri); s != nil {
		return fault.New(fault.InvalidParams, "resources under %s can only be read", s.scheme)
	}
	return nil
}

// content returns the given text or blob as content; nil for neither.
func content(text, blob *string) (*store.Content, error) {
	switch {
	case text != nil && blob != nil:
		return nil, fault.New(fault.InvalidParams, "give text or blob, not both")
	case text != nil:
		return &store.Content{Bytes: []byte(*text)}, nil
	case blob != nil:
		b, err := base64.StdEncoding.Strict().DecodeString(*blob)
		if err != nil {
			return nil, fault.New(fault.InvalidParams, "blob is not base64").Because(err)
		}
		return &store.Content{Bytes: b, Binary: true}, nil
	}
	return nil, nil
}

// fit shortens a derived name to the allowed length.
func fit(name string) string {
	if len(name) <= store.MaxName {
		return name
	}
	return strings.ToValidUTF8(name[:store.MaxName], "")
}
