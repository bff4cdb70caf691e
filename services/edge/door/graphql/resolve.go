package graphql

import (
	"context"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/api"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// root has the resolvers of each kind of operation.
type root struct {
	api     *api.Server
	closing <-chan struct{}
}

// Query implements the library's convention.
func (r *root) Query() any { return &query{r.api} }

// Mutation implements the library's convention.
func (r *root) Mutation() any { return &mutation{r.api} }

// Subscription implements the library's convention.
func (r *root) Subscription() any { return &subscription{r.api, r.closing} }

// callerKey is the context key of the caller.
type (
	callerKey struct{}
	// leaseKey is the context key of the lease of a subscription's connection.
	leaseKey struct{}
)

func callerOf(ctx context.Context) api.Caller {
	who, _ := ctx.Value(callerKey{}).(api.Caller)
	return who
}

type named struct{ Name string }

type query struct{ api *api.Server }

// GetTools resolves getTools.
func (q *query) GetTools(ctx context.Context) ([]*tool, error) {
	all, _, err := q.api.Tools(ctx, callerOf(ctx), "", 0)
	if err != nil {
		return nil, fail(err)
	}
	out := make([]*tool, len(all))
	for i, t := range all {
		out[i] = newTool(t)
	}
	return out, nil
}

// GetTool resolves getTool.
func (q *query) GetTool(ctx context.Context, in named) (*tool, error) {
	t, err := q.api.FindTool(ctx, callerOf(ctx), in.Name)
	if err != nil {
		return nil, fail(err)
	}
	return newTool(t), nil
}

// GetResources resolves getResources.
func (q *query) GetResources(ctx context.Context) ([]*resource, error) {
	all, _, err := q.api.Resources(ctx, callerOf(ctx), "", 0)
	return each(all, err, newResource)
}

// GetResource resolves getResource.
func (q *query) GetResource(ctx context.Context, in struct{ URI string }) (*readResource, error) {
	about, raw, err := q.api.ReadResource(ctx, callerOf(ctx), in.URI)
	if err != nil {
		return nil, fail(err)
	}
	out := &readResource{resource: *shownResource(about)}
	if err := read(raw, &out.Contents); err != nil {
		return nil, err
	}
	return out, nil
}

// GetPrompts resolves getPrompts.
func (q *query) GetPrompts(ctx context.Context) ([]*prompt, error) {
	all, _, err := q.api.Prompts(ctx, callerOf(ctx), "", 0)
	return each(all, err, newPrompt)
}

// GetPrompt resolves getPrompt.
func (q *query) GetPrompt(ctx context.Context, in named) (*prompt, error) {
	entry, err := q.api.FindPrompt(ctx, callerOf(ctx), in.Name)
	if err != nil {
		return nil, fail(err)
	}
	return newPrompt(entry)
}

func each[T any](entries []jsontext.Value, err error, make1 func(jsontext.Value) (*T, error)) ([]*T, error) {
	if err != nil {
		return nil, fail(err)
	}
	out := make([]*T, len(entries))
	for i, e := range entries {
		if out[i], err = make1(e); err != nil {
			return nil, err
		}
	}
	return out, nil
}

type mutation struct{ api *api.Server }

type toolInput struct {
	Name           string
	Parameters     *JSON
	IdempotencyKey *string
}

// call is the call that the input asks for.
func (in *toolInput) call(ctx context.Context, onFrame gateway.OnFrame) (*gateway.Call, error) {
	parameters, err := in.Parameters.object("parameters")
	if err != nil {
		return nil, err
	}
	if in.IdempotencyKey != nil {
		if err := mcp.CheckIdempotencyKey(*in.IdempotencyKey); err != nil {
			return nil, err
		}
	}
	c := &api.BatchCall{Name: in.Name, Parameters: parameters, IdempotencyKey: in.IdempotencyKey}
	return c.Call(callerOf(ctx), onFrame), nil
}

// ExecuteTool resolves executeTool.
func (m *mutation) ExecuteTool(ctx context.Context, in struct{ Input toolInput }) (*toolResult, error) {
	call, err := in.Input.call(ctx, nil)
	if err != nil {
		return nil, fail(err)
	}
	result, err := m.api.Do(ctx, call, nil)
	if err != nil {
		return nil, fail(err)
	}
	return newToolResult(result)
}

// maxInputs bounds executeTools.
//
//limit:message inputs of `executeTools` | `too_large`
const maxInputs = 1_000

// ExecuteTools resolves executeTools.
func (m *mutation) ExecuteTools(ctx context.Context, in struct {
	Inputs   []toolInput
	Parallel *int32
}) ([]*toolSlot, error) {
	if len(in.Inputs) > maxInputs {
		return nil, fail(fault.New(fault.TooLarge, "executeTools takes at most %d inputs", maxInputs))
	}
	parallel := 0
	if in.Parallel != nil {
		parallel = int(*in.Parallel)
	}
	slots := make([]*toolSlot, len(in.Inputs))
	m.api.Batch(ctx, parallel, func(yield func(*gateway.Call, error) bool) {
		for i := range in.Inputs {
			if !yield(in.Inputs[i].call(ctx, nil)) {
				return
			}
		}
	}, func(i int, result jsontext.Value, err error) { slots[i] = newToolSlot(result, err) })
	return slots, nil
}

// ExecutePrompt resolves executePrompt.
func (m *mutation) ExecutePrompt(ctx context.Context, in struct {
	Input struct {
		Name      string
		Arguments *JSON
	}
}) (*promptResult, error) {
	arguments, err := in.Input.Arguments.object("arguments")
	if err != nil {
		return nil, fail(callerOf(ctx).OfBody(mcp.MethodPromptsGet, err))
	}
	result, err := m.api.Do(ctx, callerOf(ctx).Call(mcp.MethodPromptsGet, in.Input.Name, arguments, nil), nil)
	if err != nil {
		return nil, fail(err)
	}
	var is struct {
		Description string `json:"description,omitzero"`
		Messages    []struct {
			Role    string         `json:"role"`
			Content jsontext.Value `json:"content"`
		} `json:"messages"`
	}
	if err := read(result, &is); err != nil {
		return nil, err
	}
	out := &promptResult{Description: text(is.Description), Messages: make([]*message, len(is.Messages))}
	for i, m := range is.Messages {
		c, err := newContent(m.Content)
		if err != nil {
			return nil, err
		}
		out.Messages[i] = &message{m.Role, c}
	}
	return out, nil
}

// resourceInput is the input of createResource, read by the rules of a resource's body.
type resourceInput struct {
	is  *api.ResourceInput
	err error
}

// ImplementsGraphQLType implements the library's convention.
func (*resourceInput) ImplementsGraphQLType(name string) bool { return name == "ResourceInput" }

// UnmarshalGraphQL implements the library's convention. The resolver returns the error,
// whose reason the library would drop.
func (r *resourceInput) UnmarshalGraphQL(in any) error {
	b, err := json.Marshal(in)
	if err == nil {
		r.is, err = api.ReadResourceInput(b)
	}
	r.err = err
	return nil
}

// CreateResource resolves createResource.
func (m *mutation) CreateResource(ctx context.Context, in struct {
	Input resourceInput
}) (*resource, error) {
	if in.Input.err != nil {
		return nil, fail(in.Input.err)
	}
	entry, err := m.api.CreateResource(ctx, callerOf(ctx), in.Input.is)
	if err != nil {
		return nil, fail(err)
	}
	return newResource(entry)
}
