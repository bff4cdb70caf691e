package graphql

import (
	"context"
	"errors"

	gql "github.com/graph-gophers/graphql-go"
	gqlerrors "github.com/graph-gophers/graphql-go/errors"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/api"
	"github.com/busbar-mcp/busbar/services/edge/forms"
)

func extensions(f *fault.Error) map[string]any {
	e := api.ErrorData(f, forms.GraphQL)
	e["code"] = forms.ForReason(f.Reason).GraphQL
	return e
}

// failure is a resolver's error. Clients see its text, so it leaves out the cause.
type failure struct{ is *fault.Error }

func fail(err error) error {
	if err == nil {
		return nil
	}
	return failure{fault.From(err)}
}

// Error implements error.
func (f failure) Error() string { return f.is.Message }

// Extensions implements the library's convention for errors.
func (f failure) Extensions() map[string]any { return extensions(f.is) }

// refusal is the response to a request that is not carried out.
func refusal(err error) *gql.Response {
	f := fault.From(err)
	return &gql.Response{Errors: []*gqlerrors.QueryError{{Message: f.Message, Extensions: extensions(f)}}}
}

// complete adds the kind to every error. Resolvers have set it on theirs; errors without
// a path were found before anything ran.
func complete(r *gql.Response) {
	for _, e := range r.Errors {
		var own failure
		switch {
		case e.Extensions != nil:
		case errors.As(e.ResolverError, &own):
			e.Extensions = own.Extensions()
		case errors.Is(e.Err, gqlerrors.ErrSyntax):
			e.Extensions = extensions(fault.New(fault.ParseError, "%s", e.Message))
		case e.Rule == "MaxDepthExceeded":
			e.Extensions = extensions(fault.New(fault.TooLarge, "%s", e.Message))
		case e.Rule != "":
			e.Extensions = extensions(fault.New(fault.InvalidRequest, "%s", e.Message))
			e.Extensions["code"] = "GRAPHQL_VALIDATION_FAILED"
		case e.Path == nil && r.Data == nil:
			e.Extensions = extensions(fault.New(fault.InvalidParams, "%s", e.Message))
		case e.Path == nil:
			// The field was not begun, and the library's words are about Go.
			e.Message = "an argument has a value of another type than the schema says"
			e.Extensions = extensions(fault.New(fault.InvalidParams, "%s", e.Message))
		default:
			e.Message = "internal error"
			e.Extensions = extensions(fault.New(fault.Internal, "%s", e.Message))
		}
	}
}

// refused is why no part of a request was carried out; empty if a part was.
func refused(r *gql.Response) fault.Reason {
	if r.Data != nil || len(r.Errors) == 0 || r.Errors[0].Path != nil {
		return ""
	}
	reason, _ := r.Errors[0].Extensions["reason"].(fault.Reason)
	return reason
}

// MakePanicError implements errors.PanicHandler. The cause goes only to the log.
func (h *Handler) MakePanicError(context.Context, any) *gqlerrors.QueryError {
	return refusal(fault.New(fault.Internal, "internal error")).Errors[0]
}

// LogPanic implements log.Logger.
func (h *Handler) LogPanic(_ context.Context, value any) {
	h.cfg.Logger.Error("a resolver panicked", "door", "graphql", "panic", value)
}
