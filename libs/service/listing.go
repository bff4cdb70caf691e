package service

import (
	"context"
	"errors"
	"strings"

	"github.com/go-json-experiment/json"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
)

// ResourcePage is a part of a list of resources.
type ResourcePage struct {
	Resources []mcp.Resource
	// Next is the cursor of the page after this one; empty for the last. At most
	// 8 KiB.
	Next string
}

// ListFunc lists resources from a cursor on, empty for the first page; at most
// limit of them, and at most 512 KiB of JSON. The order must be stable: a client
// that reads all pages gets every resource that is there all the while.
type ListFunc func(ctx context.Context, call *Call, cursor string, limit int) (ResourcePage, error)

// ListResources lists resources that are too many, or change too often, to be
// added each, or that are not for every caller. Clients see them in one list
// with those of AddResource and of other services. They are read by a template
// or by AddResourcePrefix, and announced to nobody: say with ResourcesUpdated
// when they change.
func (s *Service) ListResources(list ListFunc) {
	s.register("list of resources", func() error {
		if s.list != nil {
			return errors.New("added twice")
		}
		s.list = list
		return nil
	})
}

// AddResourcePrefix reads every URI with a prefix. Of several services, the one
// that first had a name covering the URI reads it; the empty prefix, which is any
// URI, gives way to all others. Within a service the longest prefix counts.
func (s *Service) AddResourcePrefix(prefix string, read ReadFunc) {
	s.register("resource prefix "+prefix, func() error {
		if s.prefixes[prefix] != nil {
			return errors.New("added twice")
		}
		s.prefixes[prefix] = read
		return nil
	})
}

// prefixReaderLocked is who reads a URI by its prefix; nil when nobody does.
func (s *Service) prefixReaderLocked(uri string) (read ReadFunc) {
	longest := -1
	for prefix, f := range s.prefixes {
		if len(prefix) > longest && strings.HasPrefix(uri, prefix) {
			longest, read = len(prefix), f
		}
	}
	return read
}

func (s *Service) listResources(ctx context.Context, call *Call) (*busv1.Result, error) {
	list := look(s, func() ListFunc { return s.list })
	if list == nil {
		return nil, methodNotFound(call.req.Method)
	}
	var in struct {
		Cursor string `json:"cursor,omitzero"`
		Limit  int    `json:"limit"`
	}
	if err := json.Unmarshal(call.req.Arguments, &in); err != nil || in.Limit < 1 {
		return nil, fault.New(fault.InvalidParams, "resources/list of a service needs a limit").Because(err)
	}
	page, err := list(ctx, call, in.Cursor, in.Limit)
	if err != nil {
		return nil, err
	}
	if page.Resources == nil {
		page.Resources = []mcp.Resource{}
	}
	data, err := marshal(struct {
		Resources []mcp.Resource `json:"resources"`
		Next      string         `json:"nextCursor,omitzero"`
	}{page.Resources, page.Next})
	if err != nil {
		return nil, err
	}
	return &busv1.Result{Json: data}, nil
}
