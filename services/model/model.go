// Package model is the service with a model: it answers sampling/createMessage through OpenAI's API, which
// many servers support, or Anthropic's. It is for callers that are not MCP clients; MCP clients bring
// their own models. Start at New.
package model

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/listener"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/model/internal/anthropic"
	"github.com/busbar-mcp/busbar/services/model/internal/api"
	"github.com/busbar-mcp/busbar/services/model/internal/openai"
)

// Env holds the settings of the service.
type Env struct {
	service.Env
	Provider string `env:"BUSBAR_MODEL_PROVIDER" placeholder:"NAME" help:"API of the provider: openai or anthropic. Use openai for every server with chat completions."`
	// URL is the base of the API; https, except on loopback.
	URL string `name:"url" env:"BUSBAR_MODEL_URL" placeholder:"URL" help:"Base URL of the API (default: https://api.openai.com/v1 or https://api.anthropic.com)."`
	// Name is the name of the model, or several separated by commas: the first is the
	// default, and callers may prefer another (modelPreferences.hints).
	Name string `env:"BUSBAR_MODEL_NAME" placeholder:"NAMES" help:"Models, separated by commas. The first is the default; callers may prefer another."`
	// APIKey may be empty if the server needs none.
	APIKey string `env:"BUSBAR_MODEL_API_KEY" secret:"" hidden:"" placeholder:"KEY" help:"Key for the provider."`
	// MaxTokens is the limit of an answer; a larger request is reduced to it. Zero means 8192.
	MaxTokens int `default:"8192" env:"BUSBAR_MODEL_MAX_TOKENS" placeholder:"N" help:"Limit of tokens in one answer (default ${default})."`
	// Transport sends the requests; nil means one that uses the environment's
	// proxies.
	Transport http.RoundTripper `kong:"-"`
}

const (
	openAI           = "https://api.openai.com/v1"
	anthropicAPI     = "https://api.anthropic.com"
	defaultMaxTokens = 8192
)

// base checks the URL. Its errors do not repeat the URL, which may contain a password.
func (e Env) base() (string, error) {
	raw := e.URL
	if raw == "" {
		raw = map[string]string{"openai": openAI, "anthropic": anthropicAPI}[e.Provider]
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil, u.Host == "", u.Opaque != "", u.RawQuery != "", u.ForceQuery, u.Fragment != "":
		return "", errors.New("BUSBAR_MODEL_URL is not a valid URL; set one such as " + openAI)
	case u.User != nil:
		return "", errors.New("BUSBAR_MODEL_URL contains a user or password; remove it and set BUSBAR_MODEL_API_KEY")
	case u.Scheme != "https" && !(u.Scheme == "http" && listener.IsLoopbackHost(u.Hostname())):
		return "", errors.New("BUSBAR_MODEL_URL is not https, so the key would be sent unencrypted; use https, except on loopback")
	}
	return strings.TrimRight(u.String(), "/"), nil
}

// New makes the service "model".
func New(_ context.Context, env Env) (*service.Service, error) {
	var names []string
	for _, name := range strings.Split(env.Name, ",") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	if env.Provider != "openai" && env.Provider != "anthropic" {
		return nil, errors.New("no model is configured; set BUSBAR_MODEL_PROVIDER to openai or anthropic, BUSBAR_MODEL_NAME and BUSBAR_MODEL_API_KEY")
	}
	base, err := env.base()
	switch {
	case err != nil:
		return nil, err
	case len(names) == 0:
		return nil, errors.New("BUSBAR_MODEL_NAME is not set; set it to the name of a model, or several separated by commas")
	case env.APIKey == "" && (base == openAI || base == anthropicAPI):
		return nil, errors.New("BUSBAR_MODEL_API_KEY is not set; set it to the provider's key")
	case env.MaxTokens < 0:
		return nil, fmt.Errorf("BUSBAR_MODEL_MAX_TOKENS is %d; set it to 1 or more", env.MaxTokens)
	}
	m := &models{names: names, limit: cmp.Or(env.MaxTokens, defaultMaxTokens), Service: service.New("model", service.WithVersion(env.Version),
		service.WithLogger(env.Log), service.WithDescription("A provider's model, for sampling by callers that have none"))}
	client := api.Client{HTTP: api.NewHTTP(env.Transport), URL: base, Key: env.APIKey, Header: http.Header{}}
	switch env.Provider {
	case "openai":
		if env.APIKey != "" {
			client.Header.Set("Authorization", "Bearer "+env.APIKey)
		}
		m.provider = &openai.Provider{Client: client, NewLimit: base == openAI}
	default:
		client.Header.Set("Anthropic-Version", anthropic.Version)
		if env.APIKey != "" {
			client.Header.Set("X-Api-Key", env.APIKey)
		}
		m.provider = &anthropic.Provider{Client: client}
	}
	m.HandleSampling(m.sample)
	return m.Service, nil
}

// models are the configured models of a provider.
type models struct {
	*service.Service
	provider api.Provider
	names    []string
	limit    int
}

func (m *models) sample(ctx context.Context, call *service.Call, p *mcp.CreateMessageParams) (*service.Sampled, error) {
	p.MaxTokens = min(p.MaxTokens, m.limit)
	answer, err := m.provider.Sample(ctx, m.choose(p.ModelPreferences), p)
	if err != nil && !fault.Is(err, fault.InvalidParams) {
		m.Logger().Warn("the model did not answer", "call", call.ID(), "error", err)
	}
	return answer, err
}

// choose returns the model whose name contains the first matching hint. The priorities
// are too vague to choose by.
func (m *models) choose(p mcp.ModelPreferences) string {
	for _, h := range p.Hints {
		for _, name := range m.names {
			if h.Name != "" && strings.Contains(strings.ToLower(name), strings.ToLower(h.Name)) {
				return name
			}
		}
	}
	return m.names[0]
}
