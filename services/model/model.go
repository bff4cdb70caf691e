// Package model is the Busbar service with a model: it answers
// sampling/createMessage over the API of OpenAI, which many servers have, or
// Anthropic's. It is for callers that are no MCP clients; those bring their own
// models.
package model

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/model/internal/anthropic"
	"github.com/busbar-mcp/busbar/services/model/internal/api"
	"github.com/busbar-mcp/busbar/services/model/internal/openai"
)

// Env says where the model is.
type Env struct {
	service.Env
	Provider string `env:"BUSBAR_MODEL_PROVIDER" placeholder:"NAME" help:"openai, for every server with chat completions, or anthropic."`
	// URL is the base of the API; https, except on loopback.
	URL string `name:"url" env:"BUSBAR_MODEL_URL" placeholder:"URL" help:"Base of the API. Default https://api.openai.com/v1 or https://api.anthropic.com."`
	// Name is the model's. Of several, between commas, the first is the default,
	// and callers may prefer another (modelPreferences.hints).
	Name string `env:"BUSBAR_MODEL_NAME" placeholder:"NAMES" help:"Models, between commas: the first is the default, and callers may prefer another."`
	// APIKey may be empty for a server that asks for none.
	APIKey string `env:"BUSBAR_MODEL_API_KEY" secret:"" hidden:"" placeholder:"KEY" help:"Key for the provider."`
	// MaxTokens bounds an answer; who asks for more gets this. Zero is 8192.
	MaxTokens int `default:"8192" env:"BUSBAR_MODEL_MAX_TOKENS" placeholder:"N" help:"Most tokens of one answer (default ${default})."`
	// Transport makes the requests; nil is one that knows the environment's
	// proxies.
	Transport http.RoundTripper `kong:"-"`
}

const (
	openAI           = "https://api.openai.com/v1"
	anthropicAPI     = "https://api.anthropic.com"
	defaultMaxTokens = 8192
)

// base checks the URL. Its errors do not repeat it: it may hold a password.
func (e Env) base() (string, error) {
	raw := e.URL
	if raw == "" {
		raw = map[string]string{"openai": openAI, "anthropic": anthropicAPI}[e.Provider]
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil, u.Host == "", u.Opaque != "", u.RawQuery != "", u.ForceQuery, u.Fragment != "":
		return "", errors.New("BUSBAR_MODEL_URL is not a URL such as " + openAI)
	case u.User != nil:
		return "", errors.New("BUSBAR_MODEL_URL must have no user or password in it; set BUSBAR_MODEL_API_KEY")
	case u.Scheme != "https" && !(u.Scheme == "http" && loopback(u.Hostname())):
		return "", errors.New("BUSBAR_MODEL_URL has to be https, except on loopback: the key would travel in the clear")
	}
	return strings.TrimRight(u.String(), "/"), nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
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
		return nil, errors.New("no model is configured: set BUSBAR_MODEL_PROVIDER to openai or anthropic, BUSBAR_MODEL_NAME and BUSBAR_MODEL_API_KEY")
	}
	base, err := env.base()
	switch {
	case err != nil:
		return nil, err
	case len(names) == 0:
		return nil, errors.New("BUSBAR_MODEL_NAME is not set: name the model to ask, or several between commas")
	case env.APIKey == "" && (base == openAI || base == anthropicAPI):
		return nil, errors.New("BUSBAR_MODEL_API_KEY is not set")
	case env.MaxTokens < 0:
		return nil, fmt.Errorf("BUSBAR_MODEL_MAX_TOKENS is %d, and has to be a number from 1", env.MaxTokens)
	}
	m := &models{names: names, limit: cmp.Or(env.MaxTokens, defaultMaxTokens), Service: service.New("model", service.WithVersion(env.Version),
		service.WithLogger(env.Log), service.WithDescription("A model of a provider, for sampling by callers without one"))}
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

// models are what a provider is asked for.
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
		m.Logger().Warn("no answer of the model", "call", call.ID(), "error", err)
	}
	return answer, err
}

// choose takes the first hint that is part of a model's name. The priorities
// say too little to choose by.
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
