package resource

import (
	"context"

	"github.com/busbar-mcp/busbar/services/resource/store"
)

// Cursors, to be tested by themselves.
var (
	MakeCursor  = makeCursor
	ParseCursor = parseCursor
)

// Page is a page of all resources.
func (r *Resource) Page(ctx context.Context, cursor string) ([]store.Resource, error) {
	page, _, err := r.page(ctx, "", store.Query{}, cursor, 10)
	return page, err
}
