package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"

	"github.com/yosida95/uritemplate/v3"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
)

// ReadFunc reads a resource. vars are the template's variables; empty for a resource added by its
// URI. An empty result means that there is no such resource. To say why a resource cannot be read,
// return Errorf. Contents without a URI or a MIME type get the resource's.
type ReadFunc func(ctx context.Context, call *Call, uri string, vars map[string]string) ([]mcp.ResourceContents, error)

type resource struct {
	wire *busv1.Resource
	read ReadFunc
}

type template struct {
	wire    *busv1.ResourceTemplate
	pattern *uritemplate.Template
	read    ReadFunc
	// complete has the functions by variable name.
	complete map[string]CompleteFunc
}

// scheme is what a URI begins with.
var scheme = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*:`)

// AddResource adds one resource.
func (s *Service) AddResource(r mcp.Resource, read ReadFunc) {
	s.register("resource "+r.URI, func() error {
		switch {
		case r.URI == "" || r.Name == "":
			return errors.New("a resource needs a URI and a name")
		case read == nil:
			return errNoFunction
		case s.resources[r.URI] != nil:
			return errors.New("added twice")
		}
		if !scheme.MatchString(r.URI) {
			return errors.New("a resource's URI begins with a scheme of letters, digits, +, - and ., as in orders://open")
		}
		if _, err := url.Parse(r.URI); err != nil {
			return fmt.Errorf("a client would not take its URI: %w", err)
		}
		data, err := marshal(r)
		if err != nil {
			return err
		}
		s.resources[r.URI] = &resource{wire: &busv1.Resource{Uri: r.URI, Json: data}, read: described(r.MIMEType, read)}
		return nil
	})
}

// RemoveResource removes a resource.
func (s *Service) RemoveResource(uri string) {
	s.register("resource "+uri, func() error {
		delete(s.resources, uri)
		return nil
	})
}

// ResourceUpdated tells clients that subscribed to a resource of this service that it has changed.
// Before the service runs it does nothing.
func (s *Service) ResourceUpdated(uri string) {
	conn := s.anyConn()
	if conn == nil {
		return
	}
	if err := conn.PublishUpdated(s.name, uri); err != nil {
		s.Logger().Warn("an update was not told", "service", s.name, "uri", uri, "error", err)
	}
}

// ResourceUpdate says that a resource of this service has changed.
type ResourceUpdate struct {
	URI string
	// Tenant owns the resource; only its clients are told. Empty: all clients.
	Tenant string
	// Listed says that the list of ListResources has changed too: the resource was added or
	// removed, or its description changed.
	Listed bool
}

// ResourcesUpdated announces changes of several resources, in their order. It returns nil once the
// bus has stored them, so that a client that is away for a while does not miss them. After an error
// some may have been announced. The error is unavailable while the service does not run.
func (s *Service) ResourcesUpdated(ctx context.Context, updates ...ResourceUpdate) error {
	all := make([]bus.Updated, len(updates))
	for i, u := range updates {
		all[i] = bus.Updated{Service: s.name, URI: u.URI, Tenant: u.Tenant, Listed: u.Listed}
	}
	return s.record(ctx, all...)
}

func (s *Service) record(ctx context.Context, all ...bus.Updated) error {
	conn := s.anyConn()
	if conn == nil {
		return fault.New(fault.Unavailable, "service %s is not on the bus", s.name)
	}
	return conn.RecordUpdated(ctx, all)
}

// AddResourceTemplate adds every resource whose URI matches an RFC 6570
// template. complete suggests values for the template's variables; nil for
// none.
func (s *Service) AddResourceTemplate(t mcp.ResourceTemplate, read ReadFunc, complete map[string]CompleteFunc) {
	s.register("resource template "+t.URITemplate, func() error {
		added, err := s.template(t, read, complete)
		if err == nil {
			s.templates = append(s.templates, added)
		}
		return err
	})
}

// RemoveResourceTemplate removes a template that AddResourceTemplate or AddTemplate added.
func (s *Service) RemoveResourceTemplate(uriTemplate string) {
	s.register("resource template "+uriTemplate, func() error {
		s.templates = slices.DeleteFunc(slices.Clone(s.templates), func(t *template) bool { return t.wire.UriTemplate == uriTemplate })
		return nil
	})
}

// template makes a template and refuses a duplicate.
func (s *Service) template(t mcp.ResourceTemplate, read ReadFunc, complete map[string]CompleteFunc) (*template, error) {
	if t.Name == "" {
		return nil, errors.New("a resource template needs a name")
	}
	if read == nil {
		return nil, errNoFunction
	}
	for _, other := range s.templates {
		if other.wire.UriTemplate == t.URITemplate {
			return nil, errors.New("added twice")
		}
	}
	pattern, err := uritemplate.New(t.URITemplate)
	if err != nil {
		return nil, err
	}
	data, err := marshal(t)
	return &template{
		wire:    &busv1.ResourceTemplate{UriTemplate: t.URITemplate, Json: data},
		pattern: pattern, read: described(t.MIMEType, read), complete: complete,
	}, err
}

// described gives contents the URI and the MIME type of their resource where they have
// none.
func described(mimeType string, read ReadFunc) ReadFunc {
	return func(ctx context.Context, call *Call, uri string, vars map[string]string) ([]mcp.ResourceContents, error) {
		contents, err := read(ctx, call, uri, vars)
		if !slices.ContainsFunc(contents, func(c mcp.ResourceContents) bool { return c.URI == "" || c.MIMEType == "" && mimeType != "" }) {
			return contents, err
		}
		contents = slices.Clone(contents) // the handler may return the same slice to others
		for i := range contents {
			contents[i].URI = cmp.Or(contents[i].URI, uri)
			contents[i].MIMEType = cmp.Or(contents[i].MIMEType, mimeType)
		}
		return contents, err
	}
}

func (s *Service) readResource(ctx context.Context, call *Call) (*busv1.Result, error) {
	uri := call.req.Name
	read, vars := s.reader(uri)
	if read == nil {
		return nil, unknownResource(uri)
	}
	contents, err := read(ctx, call, uri, vars)
	if err != nil {
		return nil, err
	}
	if len(contents) == 0 {
		return nil, unknownResource(uri)
	}
	data, err := contentsResult(contents...)
	if err != nil {
		return nil, err
	}
	meta, err := call.described()
	if err != nil {
		return nil, err
	}
	return &busv1.Result{Json: data, Meta: meta}, nil
}

// described returns the result's _meta; nil if the handler did not describe the resource.
func (c *Call) described() ([]byte, error) {
	r := c.resource.Load()
	if r == nil {
		return nil, nil
	}
	return marshal(map[string]*mcp.Resource{mcp.MetaResource: r})
}

func contentsResult(contents ...mcp.ResourceContents) ([]byte, error) {
	return marshal(struct {
		Contents []mcp.ResourceContents `json:"contents"`
	}{contents})
}

// reader returns the function that reads a URI. A skill's file or a resource with that URI comes
// before any template.
func (s *Service) reader(uri string) (ReadFunc, map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if read := s.fileReaderLocked(uri); read != nil {
		return read, nil
	}
	if r := s.resources[uri]; r != nil {
		return r.read, nil
	}
	for _, t := range s.templates {
		if match := t.pattern.Match(uri); match != nil {
			vars := map[string]string{}
			for name, v := range match {
				vars[name] = v.String()
			}
			return t.read, vars
		}
	}
	return s.prefixReaderLocked(uri), nil
}

func unknownResource(uri string) error {
	data, _ := marshal(map[string]string{"uri": uri})
	return fault.New(fault.UnknownResource, "Resource not found: %s", fault.Clip(uri)).With(data)
}
