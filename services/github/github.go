// Package github is the service with tools that read GitHub: repositories, code, files,
// commits, issues and pull requests. They change nothing. Start at New and add.
//
// # Configuration
//
//	variable             default                  meaning
//	BUSBAR_GITHUB_URL    https://api.github.com   base of the REST API; https, except on loopback
//	BUSBAR_GITHUB_TOKEN  none                     the token for all calls
//	HTTPS_PROXY, …       none                     as usual for programs in Go
//
// Every caller of the tools can read what the token can read: give it read access only,
// and only to what callers may see. Env.Tokens chooses a token for each call instead.
// Without a token, GitHub allows 60 requests an hour and no code search.
//
// # Behaviour
//
// Each response is cached for its token only, and revalidated the next time, which does
// not count against the rate limit. While a rate limit is used up, the service sends
// nothing and tells the model until when. A request that fails with 5xx or without an
// answer is retried within the call's time; after several failures in a row none is made
// for a while. Redirects are followed within the API. Every limit is in internal/limit.
//
// A failure is the tool's own (isError), and its text begins with its kind: invalid, not
// found, unauthorized, forbidden, rate limited, unavailable or too large. Texts of GitHub's
// users are limited in size, and their control, bidirectional and invisible characters are
// written as \uXXXX.
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

// kit holds what every tool needs.
type kit struct {
	*service.Service
	tokens   TokenSource
	upstream *upstream.Client
}

// add adds a tool that reads. It checks the arguments, chooses the token and explains failures, so that no
// tool can forget to.
func add[In, Out any](k *kit, name, title, description string, read func(ctx context.Context, api *gh.Client, in In) (Out, error)) {
	input, err := argument.Schema[In]()
	if err != nil {
		input = []byte(fmt.Sprintf("%q", err)) // not a schema: Start reports it
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

// withoutToken removes the token from a result: GitHub, or a proxy before it, may echo it.
func withoutToken[Out any](out Out, token string) (Out, error) {
	raw, err := json.Marshal(out)
	if err != nil || token == "" {
		return out, err
	}
	clean := redact.Replacer(token).Replace(string(raw))
	if clean == string(raw) {
		return out, nil
	}
	var hidden Out
	err = json.Unmarshal([]byte(clean), &hidden)
	return hidden, err
}

// api returns GitHub as the caller may see it, and the token used.
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
