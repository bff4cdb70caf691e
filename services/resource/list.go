package resource

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/resource/store"
)

const (
	// pageBytes bounds a page of a list.
	pageBytes = 400 << 10
	// maxPage is the most entries of a page.
	maxPage = 250
)

// configs is the template of the resources with configurations.
const (
	configs        = "custom://config/"
	configVariable = "config_name"
)

func (r *resources) addResources() {
	r.ListResources(func(ctx context.Context, call *service.Call, cursor string, limit int) (service.ResourcePage, error) {
		page, next, err := r.page(ctx, call.Tenant(), store.Query{}, cursor, limit)
		out := service.ResourcePage{Next: next}
		for _, e := range page {
			out.Resources = append(out.Resources, listed(e))
		}
		return out, err
	})
	read := func(ctx context.Context, call *service.Call, uri string, _ map[string]string) ([]mcp.ResourceContents, error) {
		stored, c, err := r.read(ctx, call.Tenant(), uri)
		if err != nil {
			return nil, err
		}
		if stored != nil {
			call.Describe(listed(*stored))
		}
		return []mcp.ResourceContents{c}, nil
	}
	r.AddResourcePrefix("", read)
	r.AddResourceTemplate(mcp.ResourceTemplate{
		URITemplate: configs + "{" + configVariable + "}", Name: "config", Title: "Configuration",
		Description: "A stored configuration by its name.", MIMEType: "application/json",
	}, read, map[string]service.CompleteFunc{configVariable: r.completeConfig})
	for scheme, t := range map[string]mcp.ResourceTemplate{
		"file://":  {URITemplate: "file://{+path}", Name: "file", Title: "File", Description: "A file in the directories that are configured, by its absolute path."},
		"https://": {URITemplate: "https://{+rest}", Name: "web", Title: "Web resource", Description: "The answer of a configured host to a GET."},
		"git://":   {URITemplate: "git://{repository}/{revision}/{+path}", Name: "commit", Title: "File of a commit", Description: "A file as of a revision of a configured repository: a branch, a tag or a commit's hash."},
	} {
		if r.source(scheme) != nil {
			r.AddResourceTemplate(t, read, nil)
		}
	}
}

// completeConfig suggests the names of stored configurations.
func (r *resources) completeConfig(ctx context.Context, call *service.Call, typed string, _ map[string]string) ([]string, error) {
	page, _, err := r.store.List(ctx, call.Tenant(), store.Query{Prefix: configs + url.PathEscape(typed)}, "", maxPage)
	if err != nil {
		return nil, err
	}
	names := []string{}
	for _, e := range page {
		name, err := url.PathUnescape(strings.TrimPrefix(e.URI, configs))
		if err == nil && !strings.Contains(strings.TrimPrefix(e.URI, configs), "/") {
			names = append(names, name)
		}
	}
	return names, nil
}

// listed is an entry of resources/list.
func listed(r store.Resource) mcp.Resource {
	return mcp.Resource{
		URI: r.URI, Name: r.Name, Title: r.Title, Description: r.Description,
		MIMEType: r.MIMEType, Size: &r.Size, Annotations: r.Annotations,
	}
}

// read reads a stored resource, or one from a source; entry is nil for the latter.
func (r *resources) read(ctx context.Context, tenant, uri string) (entry *store.Resource, c mcp.ResourceContents, err error) {
	if s := r.source(uri); s != nil {
		c, err = s.read(ctx, uri)
		return nil, c, err
	}
	stored, content, err := r.store.Read(ctx, tenant, uri, r.reading.admit(ctx))
	if err != nil {
		return nil, c, err
	}
	c = mcp.ResourceContents{URI: uri, MIMEType: stored.MIMEType}
	if content.Binary {
		if c.Blob = content.Bytes; c.Blob == nil {
			c.Blob = []byte{} // nil would be text
		}
	} else {
		c.Text = string(content.Bytes)
	}
	return &stored, c, nil
}

// page lists the results of a query from a cursor on, and returns the next cursor.
func (r *resources) page(ctx context.Context, tenant string, q store.Query, cursor string, limit int) ([]store.Resource, string, error) {
	scope, err := queryDigest(q)
	if err != nil {
		return nil, "", err
	}
	after, err := parseCursor(scope, cursor)
	if err != nil {
		return nil, "", err
	}
	page, more, err := r.store.List(ctx, tenant, q, after, min(limit, maxPage))
	if err != nil {
		return nil, "", err
	}
	bytes := 0
	for i, e := range page {
		// An estimate of its size as JSON, with many escapes.
		bytes += 2*(len(e.URI)+len(e.Name)+len(e.Title)+len(e.Description)+len(e.MIMEType)) + 512
		if bytes > pageBytes && i > 0 {
			page, more = page[:i], true
			break
		}
	}
	if !more {
		return page, "", nil
	}
	return page, makeCursor(scope, page[len(page)-1].URI), nil
}

// queryDigest distinguishes the cursors of different queries.
func queryDigest(q store.Query) ([]byte, error) {
	b, err := json.Marshal(q)
	sum := sha256.Sum256(b)
	return sum[:8], err
}

// A cursor is the query's digest and the last URI of the page.
func makeCursor(scope []byte, after string) string {
	return base64.RawURLEncoding.EncodeToString(append(bytes.Clone(scope), after...))
}

func parseCursor(scope []byte, cursor string) (after string, err error) {
	if cursor == "" {
		return "", nil
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	rest, ok := bytes.CutPrefix(raw, scope)
	if err != nil || !ok || strings.ContainsAny(cursor, "\r\n") || store.CheckURI(string(rest)) != nil {
		return "", fault.New(fault.InvalidParams, "cursor is not one that this list gave; start again without it")
	}
	return string(rest), nil
}
