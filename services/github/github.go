// Package github is the Busbar service of tools that read GitHub: repositories,
// code, files, commits, issues and pull requests. They change nothing.
//
// # Configuration
//
//	variable             default                  meaning
//	BUSBAR_GITHUB_URL    https://api.github.com   base of the REST API; https, except on loopback
//	BUSBAR_GITHUB_TOKEN  none                     the token that all calls use
//	HTTPS_PROXY, …       none                     as usual for programs in Go
//
// Whoever may call the tools sees what the token sees: give it read access, and
// to no more than that. Env.Tokens chooses a token for each call instead.
// Without one GitHub allows 60 requests an hour, and no search of code.
//
// # Behaviour
//
// Each response is kept, for its token alone, and asked for conditionally the
// next time, which GitHub does not charge for. While a rate limit is known to be
// used up nothing is sent, and the model is told until when. A request that
// fails with 5xx or without an answer is repeated within the call's time; after
// several in a row none is made for a while. Redirects are followed within the
// API. Every bound is in internal/limit.
//
// A failure is the tool's own (isError) and its text begins with its kind:
// invalid, not found, unauthorized, forbidden, rate limited, unavailable or too
// large. What GitHub's users wrote is bounded, and its control, bidirectional
// and invisible characters are written as \uXXXX.
package github

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"
	gh "github.com/google/go-github/v92/github"

	"github.com/busbar-mcp/busbar/libs/fetch"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/redact"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/github/internal/argument"
	"github.com/busbar-mcp/busbar/services/github/internal/limit"
	"github.com/busbar-mcp/busbar/services/github/internal/upstream"
)

// New makes the service "github".
func New(_ context.Context, env Env) (*service.Service, error) {
	base, err := env.base()
	if err == nil {
		err = checkToken(env.Token)
	}
	if err != nil {
		return nil, err
	}
	k := &kit{tokens: env.Tokens, Service: service.New("github", service.WithVersion(env.Version), service.WithLogger(env.Log),
		service.WithDescription("Reads GitHub: repositories, code, files, commits, issues and pull requests"))}
	if k.tokens == nil {
		k.tokens = fixed(env.Token)
	}
	transport := env.Transport
	if transport == nil {
		transport = fetch.Transport(limit.Header)
	}
	k.upstream = upstream.New(base, transport, "busbar-github/"+env.Version)
	k.addSearches()
	k.addRepositories()
	k.addContents()
	k.addCommits()
	k.addIssues()
	k.addPulls()
	return k.Service, nil
}

// kit is what tools are added with.
type kit struct {
	*service.Service
	tokens   TokenSource
	upstream *upstream.Client
}

// add adds a tool that reads. Its arguments are checked, its token chosen and
// its failures explained here, so that no tool can forget to.
func add[In, Out any](k *kit, name, title, description string, read func(ctx context.Context, api *gh.Client, in In) (Out, error)) {
	input, err := argument.Schema[In]()
	if err != nil {
		input = []byte(fmt.Sprintf("%q", err)) // no schema: Start says so
	}
	service.AddTool(k.Service, service.Tool{
		Name: name, Title: title, Description: description, InputSchema: input, Timeout: limit.Call,
		ReadOnly: true, Idempotent: true, Annotations: mcp.ToolAnnotations{OpenWorldHint: new(true)},
	}, func(ctx context.Context, call *service.Call, in In) (out Out, err error) {
		if err := argument.Check(in); err != nil {
			return out, service.Errorf("invalid: %v", err)
		}
		api, token, err := k.api(ctx, call)
		if err == nil {
			out, err = read(ctx, api, in)
		}
		if err == nil {
			out, err = withoutToken(out, token)
		}
		if err != nil {
			return out, k.explain(ctx, call, name, token, err)
		}
		return out, nil
	})
}

// withoutToken is a result without the token, which a GitHub, or a proxy before it, may
// echo.
func withoutToken[Out any](out Out, token string) (Out, error) {
	raw, err := json.Marshal(out)
	if err != nil || token == "" {
		return out, err
	}
	clean := redact.Exactly(token).Replace(string(raw))
	if clean == string(raw) {
		return out, nil
	}
	var hidden Out
	err = json.Unmarshal([]byte(clean), &hidden)
	return hidden, err
}

// api is GitHub as the caller may see it, and the token it is seen with.
func (k *kit) api(ctx context.Context, call *service.Call) (*gh.Client, string, error) {
	token, err := k.tokens.Token(ctx, call.Principal(), call.Tenant())
	if err == nil {
		err = checkToken(token)
	}
	if err != nil {
		return nil, "", &noToken{err}
	}
	api, err := k.upstream.As(token)
	return api, token, err
}
