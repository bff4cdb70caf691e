package gateway

import (
	"context"
	"errors"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/schema"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
)

// validate finds what the call is for and checks its arguments, so that
// nothing reaches the bus that its service would refuse.
func validate(live *catalogue.Live) Link {
	return func(ctx context.Context, c *Call, onFrame OnFrame, next Next) (*Answer, error) {
		if c.IdempotencyKey != "" {
			if err := mcp.CheckIdempotencyKey(c.IdempotencyKey); err != nil {
				return nil, err
			}
		}
		target, err := find(live.Now(), c)
		if err != nil {
			return nil, err
		}
		if c.Target, err = fitting(target, c.Arguments); err != nil {
			return nil, err
		}
		return next(ctx, c, onFrame)
	}
}

// fitting returns a target in the form that takes the arguments: the newest, or
// while several releases of a service run, the youngest that does.
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

func find(now *catalogue.Snapshot, c *Call) (catalogue.Target, error) {
	switch c.Method {
	case mcp.MethodToolsCall:
		if t, ok := now.Tool(c.Name); ok {
			return t, nil
		}
		return catalogue.Target{}, fault.New(fault.UnknownTool, "Unknown tool: %s", fault.Clip(c.Name))
	case mcp.MethodPromptsGet:
		if t, ok := now.Prompt(c.Name); ok {
			return t, nil
		}
		return catalogue.Target{}, unknownPrompt(c.Name)
	case mcp.MethodResourcesRead:
		if err := catalogue.CheckURI(c.Name); err != nil {
			return catalogue.Target{}, err
		}
		if t, ok := now.Resource(c.Name); ok {
			return t, nil
		}
		return catalogue.Target{}, UnknownResource(c.Name)
	case mcp.MethodResourcesList:
		if t, ok := now.Lister(c.Name); ok {
			return t, nil
		}
		return catalogue.Target{}, fault.New(fault.Unavailable, "service %s lists no resources now", c.Name)
	case mcp.MethodComplete:
		return findReference(now, c.Arguments)
	case mcp.MethodSample:
		return findModel(now, c.Arguments)
	}
	return catalogue.Target{}, fault.New(fault.MethodNotFound, "Method not found: %s", fault.Clip(c.Method))
}

// findReference finds the service that completes the argument of a
// completion/complete.
func findReference(now *catalogue.Snapshot, params []byte) (catalogue.Target, error) {
	var p mcp.CompleteParams
	if err := json.Unmarshal(params, &p); err != nil || p.Argument.Name == "" {
		return catalogue.Target{}, fault.New(fault.InvalidParams, "completion/complete needs params.ref and params.argument with name and value").Because(err)
	}
	switch p.Ref.Type {
	case "ref/prompt":
		if t, ok := now.Prompt(p.Ref.Name); ok {
			return t, nil
		}
		return catalogue.Target{}, unknownPrompt(p.Ref.Name)
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
		"BUSBAR_MODEL_NAME and BUSBAR_MODEL_API_KEY set; docs/prompts.md tells more")
}

func unknownPrompt(name string) error {
	return fault.New(fault.UnknownPrompt, "Unknown prompt: %s", fault.Clip(name))
}

// UnknownResource refuses a URI that no service serves.
func UnknownResource(uri string) error {
	data := append([]byte(`{"uri":`), quote(uri)...)
	return fault.New(fault.UnknownResource, "Resource not found: %s", fault.Clip(uri)).With(append(data, '}'))
}

// ErrInvalidArguments marks arguments that fail the tool's schema. Which form
// that takes depends on the protocol version, so doors ask for it.
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
