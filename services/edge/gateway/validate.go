package gateway

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/time/rate"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/schema"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
)

// find finds the target of the call. A missing target is not reported yet: a caller that may not
// call it learns the same.
func find(cfg *Config) link {
	return func(next handler) handler {
		return func(ctx context.Context, r *run) (*Answer, error) {
			now := cfg.Catalogue.Now()
			if r.Credentials.Toolset == "" || r.found {
				r.Target, r.missing = target(now, r.Principal.Tenant, r.Call)
				if err := r.stillThrough(cfg); err != nil {
					r.missing = err
				}
			} else {
				r.Target, r.missing = r.through(cfg, now)
			}
			return next(ctx, r)
		}
	}
}

// validate checks the arguments, so that nothing reaches the bus that its service would refuse.
func validate(cfg *Config) link {
	return func(next handler) handler {
		return func(ctx context.Context, r *run) (*Answer, error) {
			if r.IdempotencyKey != "" {
				if err := mcp.CheckIdempotencyKey(r.IdempotencyKey); err != nil {
					return nil, err
				}
			}
			var err error
			if r.Target, err = fitting(r.Target, r.Arguments); err != nil {
				return nil, err
			}
			// Of the release that is called: another one may declare something else.
			if r.demand = demand(cfg.Access, r.View); r.demand.Waived && r.Approval == nil {
				r.Approval = &Approval{Waived: true}
			}
			return next(ctx, r)
		}
	}
}

// fitting returns the target in the form that takes the arguments: the newest form or, while
// several releases of a service run, the youngest that does.
func fitting(target catalogue.Target, arguments []byte) (catalogue.Target, error) {
	if target.Tool == nil {
		return target, nil
	}
	if len(arguments) == 0 {
		arguments = []byte("{}")
	}
	err := target.Tool.Schema.Validate(arguments)
	if err == nil {
		return target, nil
	}
	for _, earlier := range target.Earlier {
		if earlier.Tool.Schema.Validate(arguments) == nil {
			return earlier, nil
		}
	}
	return target, invalidArguments(err)
}

// target is the target of a call for a tenant.
func target(now *catalogue.Snapshot, tenant string, c *Call) (catalogue.Target, error) {
	switch c.Method {
	case mcp.MethodToolsCall:
		if t, ok := now.Tool(c.Name); ok {
			c.Name = now.ToolName(c.Name) // the only name that policy, limits and audit trail see
			return t, nil
		}
		if t, ok := own(c.Name); ok {
			return t, nil
		}
		return catalogue.Target{}, UnknownTool(c.Name)
	case mcp.MethodPromptsGet:
		if t, ok := now.Prompt(c.Name); ok {
			return t, nil
		}
		return catalogue.Target{}, UnknownPrompt(c.Name)
	case mcp.MethodResourcesRead:
		if err := catalogue.CheckURI(c.Name); err != nil {
			return catalogue.Target{}, err
		}
		if t, ok := now.Resource(c.Name); ok {
			return t, nil
		}
		return catalogue.Target{}, UnknownResource(c.Name)
	case mcp.MethodResourcesList:
		return lister(now, catalogue.Resources, c.Name)
	case mcp.MethodPromptsList:
		return lister(now, catalogue.Prompts, c.Name)
	case mcp.MethodComplete:
		return findReference(now, tenant, c.Arguments)
	case mcp.MethodSample:
		return findModel(now, c.Arguments)
	case AuditQuery:
		if c.Who != nil { // only a door that knows the reader asks this
			return catalogue.Target{Service: AuditService}, nil
		}
	case mcp.MethodTasksGet, mcp.MethodTasksUpdate, mcp.MethodTasksCancel:
		return catalogue.Target{}, nil // the edge's own tool
	}
	return catalogue.Target{}, fault.New(fault.MethodNotFound, "Method not found: %s", fault.Clip(c.Method))
}

func lister(now *catalogue.Snapshot, kind catalogue.Kind, service string) (catalogue.Target, error) {
	if t, ok := now.Lister(kind, service); ok {
		return t, nil
	}
	return catalogue.Target{}, fault.New(fault.Unavailable, "service %s is not asked for this list now", fault.Clip(service))
}

// findReference finds the service that completes the argument of a completion/complete.
func findReference(now *catalogue.Snapshot, tenant string, params []byte) (catalogue.Target, error) {
	var p mcp.CompleteParams
	if err := json.Unmarshal(params, &p); err != nil || p.Argument.Name == "" {
		return catalogue.Target{}, fault.New(fault.InvalidParams, "completion/complete needs params.ref and params.argument with name and value").Because(err)
	}
	switch p.Ref.Type {
	case "ref/prompt":
		if t, ok := now.Prompt(p.Ref.Name); ok {
			return t, nil
		}
		return catalogue.Target{}, UnknownPrompt(p.Ref.Name)
	case "ref/resource":
		if err := catalogue.CheckURI(p.Ref.URI); err != nil {
			return catalogue.Target{}, err
		}
		if t, ok := now.Template(p.Ref.URI); ok {
			return t, nil
		}
		return catalogue.Target{}, UnknownResource(p.Ref.URI)
	}
	return catalogue.Target{}, fault.New(fault.InvalidParams, "params.ref.type must be ref/prompt or ref/resource")
}

// findModel finds the service with a model.
func findModel(now *catalogue.Snapshot, params []byte) (catalogue.Target, error) {
	if _, err := mcp.ReadCreateMessage(params); err != nil {
		return catalogue.Target{}, err
	}
	if t, ok := now.Sampler(); ok {
		return t, nil
	}
	return catalogue.Target{}, fault.New(fault.Unavailable, "No model is configured. Run the model service with BUSBAR_MODEL_PROVIDER=openai or anthropic, "+
		"BUSBAR_MODEL_NAME and BUSBAR_MODEL_API_KEY set; docs/reference/services/prompt.md tells more")
}

// unknown is the error of a call whose target does not exist, with the name that its client used.
func unknown(r *run) error {
	name := cmp.Or(r.shown, r.Name)
	switch r.Method {
	case mcp.MethodToolsCall:
		return UnknownTool(name)
	case mcp.MethodPromptsGet:
		return UnknownPrompt(name)
	case mcp.MethodResourcesRead:
		return UnknownResource(name)
	case mcp.MethodComplete:
		var p mcp.CompleteParams
		if json.Unmarshal(r.Arguments, &p) == nil && p.Ref.Type == "ref/resource" {
			return UnknownResource(p.Ref.URI)
		}
		return UnknownPrompt(cmp.Or(r.shown, p.Ref.Name))
	case mcp.MethodTasksGet, mcp.MethodTasksUpdate, mcp.MethodTasksCancel:
		return unknownTask()
	}
	return fault.New(fault.Forbidden, "the caller may not use this")
}

// absent returns the error of a call whose target the catalogue does not have, given the error
// that says so. While the bus does not answer, the target may exist after all, so the error is
// another one. It is the same for a target that the caller may not see.
func (cfg *Config) absent(unknown error) error {
	if cfg.Catalogue.Current() {
		return unknown
	}
	for _, reason := range []fault.Reason{fault.UnknownTool, fault.UnknownPrompt, fault.UnknownResource} {
		if fault.Is(unknown, reason) {
			e := fault.New(fault.Unavailable, "the bus does not answer, so it is not known what services offer now; try again shortly").Because(unknown)
			e.RetryAfter = time.Second
			return e
		}
	}
	return unknown
}

// Absent is the error for something that a snapshot of the catalogue does not have, given the
// error that says so: see absent.
func (g *Gateway) Absent(unknown error) error { return g.cfg.absent(unknown) }

// UnknownTool refuses a name that no tool has.
func UnknownTool(name string) error {
	return fault.New(fault.UnknownTool, "Unknown tool: %s", fault.Clip(name))
}

// UnknownPrompt refuses a name that no prompt has.
func UnknownPrompt(name string) error {
	return fault.New(fault.UnknownPrompt, "Unknown prompt: %s", fault.Clip(name))
}

// UnknownResource refuses a URI that no service serves.
func UnknownResource(uri string) error {
	data := append([]byte(`{"uri":`), quote(uri)...)
	return fault.New(fault.UnknownResource, "Resource not found: %s", fault.Clip(uri)).With(append(data, '}'))
}

// ErrInvalidArguments marks arguments that fail the tool's schema. The form of the answer depends
// on the protocol version, so doors ask for this error.
var ErrInvalidArguments = errors.New("arguments fail the tool's input schema")

func invalidArguments(err error) error {
	var invalid *schema.InvalidError
	if !errors.As(err, &invalid) || len(invalid.Problems) == 0 {
		return fault.From(err)
	}
	first := invalid.Problems[0]
	data := append([]byte(`{"parameter":`), quote(strings.TrimPrefix(first.Path, "/"))...)
	data = append(append(data, `,"detail":`...), quote(first.Message)...)
	return fault.New(fault.InvalidParams, "Invalid arguments: %s", invalid.Error()).
		With(append(data, '}')).Because(ErrInvalidArguments)
}

func quote(s string) []byte {
	b, err := jsontext.AppendQuote(nil, s)
	if err != nil {
		return []byte(`""`)
	}
	return b
}

// checksPerSecond bounds the checks of results in a flood of calls.
const checksPerSecond = 200

// check logs results that do not match the tool's output schema. Of more than checksPerSecond
// results, only some are checked. Clients that check the result discard it. It is passed on
// unchanged: the tool ran.
func check(cfg *Config) link {
	if !cfg.CheckResults {
		return nil
	}
	checks := rate.NewLimiter(checksPerSecond, checksPerSecond)
	return func(next handler) handler {
		return func(ctx context.Context, r *run) (*Answer, error) {
			answer, err := next(ctx, r)
			t := r.Target.Tool
			if err != nil || t == nil || t.Output == nil || answer.Result == nil || answer.Result.IsError || !checks.Allow() {
				return answer, err
			}
			if problem := misfit(t.Output, answer.Result.Json); problem != "" {
				cfg.Logger.Warn("tool "+r.Name+" returns what its schema forbids", "service", r.Target.Service, "call", r.ID, "problem", problem)
			}
			return answer, nil
		}
	}
}

// misfit says how a result differs from its schema; empty if it does not.
func misfit(s *schema.Schema, raw []byte) string {
	var result struct {
		Structured jsontext.Value `json:"structuredContent"`
	}
	err := json.Unmarshal(raw, &result)
	switch {
	case err != nil:
	case result.Structured == nil:
		return "it has no structuredContent"
	default:
		err = s.Validate(result.Structured)
	}
	if err != nil {
		return err.Error()
	}
	return ""
}
