package edge

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"

	"github.com/busbar-mcp/busbar/services/edge/access"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
)

// PolicyFlags say which policy file is in force. The tags are read by kong.
type PolicyFlags struct {
	ListTools int    `name:"list-tools" env:"BUSBAR_LIST_TOOLS" placeholder:"N" help:"Limit of tools in a list for MCP clients (default: 0, no limit). A longer list is replaced by search_tools and describe_tools."`
	Access    string `env:"BUSBAR_ACCESS" placeholder:"FILE" help:"Policy file, which says who may do what. It is read again when it changes. Without it, everybody may do everything."`
}

// OpenPolicy applies the policy of the flags to an edge, until closed is called.
func (f *PolicyFlags) OpenPolicy(cfg *Config) (closed func(), err error) {
	if cfg.ListTools = f.ListTools; f.ListTools < 0 {
		return nil, errors.New("--list-tools is a number of tools, or 0 for any")
	}
	if f.Access == "" {
		return func() {}, nil
	}
	live, err := access.Open(f.Access, slog.Default())
	if err != nil {
		return nil, fmt.Errorf("--access: %w", err)
	}
	cfg.Access, cfg.Limits = live, live
	return live.Close, nil
}

// policy is the policy of the edge's file; nil without a file.
func (e *Edge) policy() *access.Live {
	live, _ := e.cfg.Access.(*access.Live)
	return live
}

// catalogue configures the edge's catalogue.
func (e *Edge) catalogue() catalogue.Config {
	cfg := catalogue.Config{Logger: e.cfg.Logger}
	if p := e.policy(); p != nil {
		cfg.Grants = p.Grants
	}
	return cfg
}

// policyReady says which policy is in force. A broken file does not keep an edge from
// serving: the last good policy stays in force.
func (e *Edge) policyReady() (string, error) {
	line := "policy " + e.policy().Now().Digest()[:digestShown]
	if since := e.policy().Broken(); !since.IsZero() {
		line += ", although its file has changed since: that cannot be used since " + since.UTC().Format("2006-01-02 15:04:05 UTC") + ", and the log says why"
	}
	if n := e.live.Now().Refused(); n > 0 {
		line += fmt.Sprintf("; not granted to services: %d, see busbar services --access FILE", n)
	}
	if n := len(e.live.Now().Quarantined()); n > 0 {
		line += fmt.Sprintf("; tools that wait to be accepted: %d, see busbar access accept", n)
	}
	return line, nil
}

// digestShown is how many hexadecimal digits of a policy's digest are shown: as many as
// fit into a metric.
const digestShown = 12

// measurePolicy adds the metrics of the policy.
func (e *Edge) measurePolicy() {
	live := e.policy()
	if live == nil {
		return
	}
	e.metrics.Gauge("busbar_access_policy", "The first 48 bits of the SHA-256 of the policy file in force: the same at all edges that have the same one.", func() float64 {
		n, _ := strconv.ParseUint(live.Now().Digest()[:digestShown], 16, 64)
		return float64(n)
	})
	e.metrics.Gauge("busbar_access_broken", "1 while the policy file cannot be used, and the last good one holds.", func() float64 {
		if live.Broken().IsZero() {
			return 0
		}
		return 1
	})
}
