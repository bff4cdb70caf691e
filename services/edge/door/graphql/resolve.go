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

// root has the resolvers of each kind of operation. The library finds them by the names of
// their fields; each is a codec of one of api.Operations.
type root struct {
	api     *api.Server
	closing <-chan struct{}
}

// Query implements the library's convention.
func (r *root) Query() any {
	s := r.api
	return &struct {
		GetTools        func(context.Context) ([]*tool, error)
		GetTool         func(context.Context, byName) (*tool, error)
		GetResources    func(context.Context) ([]*resource, error)
		GetResource     func(context.Context, byURI) (*resource, error)
		GetPrompts      func(context.Context) ([]*prompt, error)
		GetPrompt       func(context.Context, byName) (*prompt, error)
		GetApprovals    func(context.Context) ([]*held, error)
		GetApproval     func(context.Context, byID) (*held, error)
		GetElicitations func(context.Context) ([]*held, error)
		GetElicitation  func(context.Context, byID) (*held, error)
	}{
		all(s.Tools, as[*api.Tool, tool]), one[byName](s.FindTool, as[*api.Tool, tool]),
		all(s.Resources, as[jsontext.Value, resource]), one[byURI](s.ReadResource, as[*api.Contents, resource]),
		all(s.Prompts, as[jsontext.Value, prompt]), one[byName](s.FindPrompt, as[jsontext.Value, prompt]),
		all(s.Approvals, as[api.Held, held]), one[byID](s.FindApproval, as[*api.Held, held]),
		all(s.Elicitations, as[api.Held, held]), one[byID](s.FindElicitation, as[*api.Held, held]),
	}
}

// Mutation implements the library's convention.
func (r *root) Mutation() any {
	s := r.api
	return &struct {
		ExecuteTool       func(context.Context, toolArguments) (*toolResult, error)
		ExecuteTools      func(context.Context, toolInputs) ([]*toolSlot, error)
		ExecutePrompt     func(context.Context, promptArguments) (*promptResult, error)
		CreateResource    func(context.Context, resourceArguments) (*resource, error)
		Approve           func(context.Context, decision) (*toolResult, error)
		AnswerElicitation func(context.Context, responses) (*toolResult, error)
	}{
		one[toolArguments](s.CallTool, newToolResult), r.executeTools,
		one[promptArguments](s.FillPrompt, as[jsontext.Value, promptResult]),
		one[resourceArguments](s.CreateResource, func(w *api.Written) (*resource, error) { return as[jsontext.Value, resource](w.Entry) }),
		one[decision](s.Approve, newToolResult), one[responses](s.Answer, newToolResult),
	}
}

// Subscription implements the library's convention.
func (r *root) Subscription() any { return &subscription{r.api, r.closing} }

// all resolves a list.
func all[In, Out, T any](do func(context.Context, api.Caller, In) (api.List[Out], error), show func(Out) (*T, error)) func(context.Context) ([]*T, error) {
	return func(ctx context.Context) ([]*T, error) {
		var everything In
		l, err := do(ctx, callerOf(ctx), everything)
		if err != nil {
			return nil, fail(err)
		}
		out := make([]*T, len(l.Entries))
		for i, e := range l.Entries {
			if out[i], err = show(e); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
}

// one resolves a field with arguments.
func one[A interface {
	input(ctx context.Context) (In, error)
}, In, Out, T any](do func(context.Context, api.Caller, In) (Out, error), show func(Out) (*T, error)) func(context.Context, A) (*T, error) {
	return func(ctx context.Context, arguments A) (*T, error) {
		in, err := arguments.input(ctx)
		if err != nil {
			return nil, fail(err)
		}
		out, err := do(ctx, callerOf(ctx), in)
		if err != nil {
			return nil, fail(err)
		}
		return show(out)
	}
}

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

// Arguments of fields.
type (
	byName        struct{ Name string }
	byURI         struct{ URI string }
	byID          struct{ ID string }
	toolArguments struct{ Input toolInput }
	toolInput     struct {
		Name           string
		Parameters     *JSON
		IdempotencyKey *string
	}
	toolInputs struct {
		Inputs   []toolInput
		Parallel *int32
	}
	promptArguments struct {
		Input struct {
			Name      string
			Arguments *JSON
		}
	}
	resourceArguments struct{ Input resourceInput }
	// resourceInput is read by the rules of a resource's body.
	resourceInput struct {
		is  *api.ResourceInput
		err error
	}
	decision struct {
		ID      string
		Approve bool
	}
	responses struct {
		ID        string
		Responses JSON
	}
)

func (a byName) input(context.Context) (string, error) { return a.Name, nil }
func (a byURI) input(context.Context) (string, error)  { return a.URI, nil }
func (a byID) input(context.Context) (string, error)   { return a.ID, nil }

func (a toolArguments) input(context.Context) (api.ToolCall, error) { return a.Input.call() }

// call is the call that the input asks for.
func (in *toolInput) call() (c api.ToolCall, err error) {
	c = api.ToolCall{Name: in.Name, IdempotencyKey: in.IdempotencyKey}
	if c.Parameters, err = in.Parameters.object("parameters"); err == nil && in.IdempotencyKey != nil {
		err = mcp.CheckIdempotencyKey(*in.IdempotencyKey)
	}
	return c, err
}

func (a promptArguments) input(ctx context.Context) (c api.PromptCall, err error) {
	c.Name = a.Input.Name
	c.Arguments, err = a.Input.Arguments.object("arguments")
	return c, callerOf(ctx).OfBody(mcp.MethodPromptsGet, err)
}

func (a resourceArguments) input(context.Context) (api.Write, error) {
	return api.Write{Resource: a.Input.is}, a.Input.err
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

func (a decision) input(context.Context) (api.Decision, error) {
	return api.Decision{Approval: a.ID, Approve: &a.Approve}, nil
}

func (a responses) input(context.Context) (r api.Answers, err error) {
	r.Elicitation = a.ID
	r.Responses, err = a.Responses.object("responses")
	return r, err
}

// maxInputs bounds executeTools.
//
//limit:message inputs of `executeTools` | `too_large`
const maxInputs = 1_000

// executeTools resolves a batch.
func (r *root) executeTools(ctx context.Context, in toolInputs) ([]*toolSlot, error) {
	if len(in.Inputs) > maxInputs {
		return nil, fail(fault.New(fault.TooLarge, "executeTools takes at most %d inputs", maxInputs))
	}
	parallel := 0
	if in.Parallel != nil {
		parallel = int(*in.Parallel)
	}
	slots := make([]*toolSlot, len(in.Inputs))
	r.api.Batch(ctx, parallel, func(yield func(*gateway.Call, error) bool) {
		for i := range in.Inputs {
			c, err := in.Inputs[i].call()
			if !yield(c.Call(callerOf(ctx)), err) {
				return
			}
		}
	}, func(i int, result *api.Result, err error) { slots[i] = newToolSlot(result, err) })
	return slots, nil
}
