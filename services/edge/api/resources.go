package api

import (
	"context"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
	"github.com/busbar-mcp/busbar/services/edge/forms"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// The tools of the resource service, by which these doors write resources.
const (
	toolCreate = "create_resource"
	toolUpdate = "update_resource"
	toolDelete = "delete_resource"
)

// ResourceInput is a resource in the form of these doors. An absent member is nil.
type ResourceInput struct {
	URI         *string        `json:"uri,omitzero"`
	Name        *string        `json:"name,omitzero"`
	Title       *string        `json:"title,omitzero"`
	Description *string        `json:"description,omitzero"`
	MIMEType    *string        `json:"mime_type,omitzero"`
	MIMETypeToo *string        `json:"mimeType,omitzero"`
	Content     *string        `json:"content,omitzero"`
	Text        *string        `json:"text,omitzero"`
	Blob        *string        `json:"blob,omitzero"`
	Annotations jsontext.Value `json:"annotations,omitzero"`
}

// ReadResourceInput reads one strictly. A member with two spellings may appear in only
// one of them.
func ReadResourceInput(b []byte) (*ResourceInput, error) {
	in := &ResourceInput{}
	if len(b) == 0 {
		b = []byte("{}")
	}
	if err := json.Unmarshal(b, in, json.RejectUnknownMembers(true)); err != nil {
		return nil, fault.New(fault.InvalidRequest, "a resource has uri, name, title, description, mime_type, content or blob, all strings, and annotations").Because(err)
	}
	switch {
	case in.Content != nil && in.Text != nil:
		return nil, fault.New(fault.InvalidRequest, "content and text are the same; give one of them")
	case in.MIMEType != nil && in.MIMETypeToo != nil:
		return nil, fault.New(fault.InvalidRequest, "mime_type and mimeType are the same; give one of them")
	}
	return in, nil
}

// arguments are the arguments of the tools, with more members.
func (in *ResourceInput) arguments(more map[string]any) (jsontext.Value, error) {
	if first(in.Content, in.Text) != nil && in.Blob != nil {
		return nil, fault.New(fault.InvalidRequest, "give content or blob, not both")
	}
	all := map[string]any{}
	for name, v := range map[string]*string{
		"uri": in.URI, "name": in.Name, "title": in.Title, "description": in.Description, "blob": in.Blob,
		"mimeType": first(in.MIMEType, in.MIMETypeToo), "text": first(in.Content, in.Text),
	} {
		if v != nil {
			all[name] = *v
		}
	}
	if in.Annotations != nil {
		all["annotations"] = in.Annotations
	}
	for name, v := range more {
		all[name] = v
	}
	return json.Marshal(all, json.Deterministic(true))
}

func first(a, b *string) *string {
	if a != nil {
		return a
	}
	return b
}

// Write is the input of a change to resources: the URI of the resource, unless it is made,
// the revision that it must have, 0 for any, and its members.
type Write struct {
	URI      string
	Revision int64
	Resource *ResourceInput
}

// Written is the metadata of a resource that was written.
type Written struct {
	Entry   jsontext.Value
	Created bool
}

// CreateResource stores a new resource.
func (s *Server) CreateResource(ctx context.Context, c Caller, w Write) (*Written, error) {
	arguments, err := w.Resource.arguments(nil)
	if err != nil {
		return nil, err
	}
	if uri := w.Resource.URI; uri != nil {
		if err := s.unseen(ctx, c, *uri); err != nil {
			return nil, err
		}
	}
	entry, err := s.write(ctx, c, toolCreate, arguments)
	return &Written{entry, true}, err
}

// PatchResource changes the given members of a resource.
func (s *Server) PatchResource(ctx context.Context, c Caller, w Write) (*Written, error) {
	return s.update(ctx, c, w, "a resource keeps its uri")
}

// PutResource changes a resource, or creates it. It creates with the same key, so that a
// repeated request finds the key and gets the same answer.
func (s *Server) PutResource(ctx context.Context, c Caller, w Write) (*Written, error) {
	updated, err := s.update(ctx, c, w, "the body names another uri than the path")
	missing, made := fault.Is(err, fault.UnknownResource), fault.Is(err, fault.Conflict) && c.IdempotencyKey != ""
	if w.Revision > 0 || !missing && !made {
		return updated, err
	}
	w.Resource.URI = &w.URI
	created, failed := s.CreateResource(ctx, c, w)
	if failed != nil && made {
		return nil, err // the key belongs to another call after all
	}
	return created, failed
}

// update changes the given members of a resource. other is the error for another URI.
func (s *Server) update(ctx context.Context, c Caller, w Write, other string) (*Written, error) {
	if w.Resource.URI != nil && *w.Resource.URI != w.URI {
		return nil, fault.New(fault.InvalidRequest, "%s", other)
	}
	entry, err := s.change(ctx, c, toolUpdate, w, w.Resource)
	return &Written{Entry: entry}, err
}

// DeleteResource removes a resource.
func (s *Server) DeleteResource(ctx context.Context, c Caller, w Write) (None, error) {
	_, err := s.change(ctx, c, toolDelete, w, &ResourceInput{})
	return None{}, err
}

// change calls a tool that changes a resource, with more members.
func (s *Server) change(ctx context.Context, c Caller, tool string, w Write, in *ResourceInput) (jsontext.Value, error) {
	more := map[string]any{"uri": w.URI}
	if w.Revision > 0 {
		more["expectedRevision"] = w.Revision
	}
	arguments, err := in.arguments(more)
	if err != nil {
		return nil, err
	}
	if err := s.unseen(ctx, c, w.URI); err != nil {
		return nil, err
	}
	return s.write(ctx, c, tool, arguments)
}

// unseen refuses to change a resource that must stay hidden from its caller. A writer by
// the resource's path gets the same error as a reader.
func (s *Server) unseen(ctx context.Context, c Caller, uri string) error {
	now, err := s.gateway.See(ctx, c.Credentials)
	if err != nil {
		return err
	}
	if _, ok := now.Resource(uri); now.Private() && !ok {
		return s.gateway.Absent(gateway.UnknownResource(uri))
	}
	return nil
}

// write calls one of the tools. If they are not there, nothing can be written.
func (s *Server) write(ctx context.Context, c Caller, tool string, arguments jsontext.Value) (jsontext.Value, error) {
	r, err := toolResult(s.do(ctx, c, c.Call(mcp.MethodToolsCall, tool, arguments)))
	switch {
	case fault.Is(err, fault.UnknownTool):
		return nil, fault.New(fault.Unavailable, "no service stores resources for you; an operator runs the resource service, and says who may use it")
	case err != nil:
		return nil, c.OfBody(forms.Resource, err)
	case r.IsError:
		return nil, c.OfBody(forms.Resource, fault.New(fault.InvalidParams, "%s", r.Text()).Ran(fault.Unknown))
	}
	return r.StructuredContent, nil
}

// Contents are a resource with its contents, a JSON array.
type Contents struct {
	URI         string         `json:"uri"`
	Name        string         `json:"name,omitzero"`
	Title       string         `json:"title,omitzero"`
	Description string         `json:"description,omitzero"`
	MIMEType    string         `json:"mimeType,omitzero"`
	Contents    jsontext.Value `json:"contents"`
	// Result is the same as MCP has it.
	Result jsontext.Value `json:"-"`
}

// ReadResource reads a resource.
func (s *Server) ReadResource(ctx context.Context, c Caller, uri string) (*Contents, error) {
	answer, err := s.gateway.Do(ctx, c.Call(mcp.MethodResourcesRead, uri, nil), c.OnFrame)
	result, err := Outcome(answer, err)
	if err != nil {
		return nil, err
	}
	var read struct {
		Contents jsontext.Value `json:"contents"`
	}
	if err := json.Unmarshal(result, &read); err != nil {
		return nil, fault.From(err)
	}
	about, err := s.about(ctx, c, uri, answer.Result.Meta)
	if err != nil {
		return nil, err
	}
	return &Contents{uri, about.Name, about.Title, about.Description, about.MIMEType, read.Contents, result}, nil
}

// about is the metadata that the service sent with the contents; without it, the
// catalogue's entry.
func (s *Server) about(ctx context.Context, c Caller, uri string, meta []byte) (*mcp.Resource, error) {
	known := map[string]jsontext.Value{}
	if len(meta) > 0 {
		if err := json.Unmarshal(meta, &known); err != nil {
			return nil, fault.From(err)
		}
	}
	entry := known[mcp.MetaResource]
	if entry == nil {
		var err error
		if entry, err = s.FindResource(ctx, c, uri); err != nil {
			return &mcp.Resource{URI: uri}, nil // it went away meanwhile
		}
	}
	about := &mcp.Resource{}
	if err := json.Unmarshal(entry, about); err != nil {
		return nil, fault.From(err)
	}
	about.URI = uri
	return about, nil
}

// FindResource returns the metadata of a resource without reading it, in the form of MCP.
// For a resource that only a template covers, this is its URI.
func (s *Server) FindResource(ctx context.Context, c Caller, uri string) (jsontext.Value, error) {
	if err := catalogue.CheckURI(uri); err != nil {
		return nil, err
	}
	now, err := s.gateway.See(ctx, c.Credentials)
	if err != nil {
		return nil, err
	}
	if entry, ok := now.Entry(catalogue.Resources, uri); ok {
		return entry, nil
	}
	if _, ok := now.Resource(uri); ok {
		return json.Marshal(map[string]string{"uri": uri})
	}
	return nil, s.gateway.Absent(gateway.UnknownResource(uri))
}

// Updates receives every update of a resource until it is closed, on behalf of the
// lease's caller. The error is one of FindResource.
func (s *Server) Updates(ctx context.Context, c Caller, lease *gateway.Lease, uri string) (*catalogue.Subscription, error) {
	if _, err := s.FindResource(ctx, c, uri); err != nil {
		return nil, err
	}
	return lease.Subscribe(func(updated string) bool { return updated == uri }), nil
}
