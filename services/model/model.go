// Package model is the Busbar service with a model: it answers
// sampling/createMessage over the API of OpenAI, which many servers have, or
// Anthropic's. It is for callers that are no MCP clients; those bring their own
// models.
package model

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/model/internal/anthropic"
	"github.com/busbar-mcp/busbar/services/model/internal/api"
	"github.com/busbar-mcp/busbar/services/model/internal/openai"
)

// Config says where the model is.
type Config struct {
	// Provider is "openai", for every server with chat completions, or
	// "anthropic". Empty: there is no model.
	Provider string
	// URL is the base of the API; https, but for loopback. Default
	// https://api.openai.com/v1 or https://api.anthropic.com.
	URL string
	// Name is the model's. Of several, between commas, the first is the default,
	// and callers may prefer another (modelPreferences.hints).
	Name string
	// APIKey may be empty for a server that asks for none.
	APIKey string
	// MaxTokens bounds an answer; who asks for more gets this. Default 8192.
	MaxTokens string
	// Transport makes the requests; nil is one that knows the environment's
	// proxies.
	Transport http.RoundTripper
	// Logger is told what the provider says of failures; nil is slog.Default().
	Logger *slog.Logger
}

// FromEnv reads BUSBAR_MODEL_PROVIDER, BUSBAR_MODEL_URL, BUSBAR_MODEL_NAME,
// BUSBAR_MODEL_API_KEY and BUSBAR_MODEL_MAX_TOKENS.
func FromEnv() Config {
	return Config{
		Provider: os.Getenv("BUSBAR_MODEL_PROVIDER"), URL: os.Getenv("BUSBAR_MODEL_URL"), Name: os.Getenv("BUSBAR_MODEL_NAME"),
		APIKey: os.Getenv("BUSBAR_MODEL_API_KEY"), MaxTokens: os.Getenv("BUSBAR_MODEL_MAX_TOKENS"),
	}
}

// Enabled reports whether a model is configured.
func (c Config) Enabled() bool { return c.Provider != "" }

const (
	openAI           = "https://api.openai.com/v1"
	anthropicAPI     = "https://api.anthropic.com"
	defaultMaxTokens = 8192
)

// base checks the URL. Its errors do not repeat it: it may hold a password.
func (c Config) base() (string, error) {
	raw := c.URL
	if raw == "" {
		raw = map[string]string{"openai": openAI, "anthropic": anthropicAPI}[c.Provider]
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
func New(version string, cfg Config) (*service.Service, error) {
	m := &models{limit: defaultMaxTokens, log: cfg.Logger}
	for _, name := range strings.Split(cfg.Name, ",") {
		if name = strings.TrimSpace(name); name != "" {
			m.names = append(m.names, name)
		}
	}
	if cfg.Provider != "openai" && cfg.Provider != "anthropic" {
		return nil, errors.New("no model is configured: set BUSBAR_MODEL_PROVIDER to openai or anthropic, BUSBAR_MODEL_NAME and BUSBAR_MODEL_API_KEY")
	}
	base, err := cfg.base()
	if err != nil {
		return nil, err
	}
	if len(m.names) == 0 {
		return nil, errors.New("BUSBAR_MODEL_NAME is not set: name the model to ask, or several between commas")
	}
	if cfg.APIKey == "" && (base == openAI || base == anthropicAPI) {
		return nil, errors.New("BUSBAR_MODEL_API_KEY is not set")
	}
	if cfg.MaxTokens != "" {
		if m.limit, err = strconv.Atoi(cfg.MaxTokens); err != nil || m.limit < 1 {
			return nil, fmt.Errorf("BUSBAR_MODEL_MAX_TOKENS is %.20q, and has to be a number from 1", cfg.MaxTokens)
		}
	}
	client := api.Client{HTTP: api.NewHTTP(cfg.Transport), URL: base, Key: cfg.APIKey, Header: http.Header{}}
	switch cfg.Provider {
	case "openai":
		if cfg.APIKey != "" {
			client.Header.Set("Authorization", "Bearer "+cfg.APIKey)
		}
		m.provider = &openai.Provider{Client: client, NewLimit: base == openAI}
	default:
		client.Header.Set("Anthropic-Version", anthropic.Version)
		if cfg.APIKey != "" {
			client.Header.Set("X-Api-Key", cfg.APIKey)
		}
		m.provider = &anthropic.Provider{Client: client}
	}
	s := service.New("model", service.WithVersion(version), service.WithLogger(cfg.Logger), service.WithDescription("A model of a provider, for sampling by callers without one"))
	s.HandleSampling(m.sample)
	return s, nil
}

// models are what a provider is asked for.
type models struct {
	provider api.Provider
	names    []string
	limit    int
	log      *slog.Logger
}

func (m *models) sample(ctx context.Context, call *service.Call, p *mcp.CreateMessageParams) (*service.Sampled, error) {
	p.MaxTokens = min(p.MaxTokens, m.limit)
	answer, err := m.provider.Sample(ctx, m.choose(p.ModelPreferences), p)
	if err != nil && !fault.Is(err, fault.InvalidParams) {
		log := m.log
		if log == nil {
			log = slog.Default() // at use: service.Main sets it up after this
		}
		log.Warn("no answer of the model", "call", call.ID(), "error", err)
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
