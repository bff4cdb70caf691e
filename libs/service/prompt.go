package service

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
)

// PromptFunc renders a prompt. Every required argument is present. To refuse
// arguments, return Errorf.
type PromptFunc func(ctx context.Context, call *Call, arguments map[string]string) ([]mcp.PromptMessage, error)

// CompleteFunc suggests values for an argument. typed is the text entered so far; others are the
// arguments already known. At most 100 values reach the client.
type CompleteFunc func(ctx context.Context, call *Call, typed string, others map[string]string) ([]string, error)

type prompt struct {
	wire     *busv1.Prompt
	prompt   mcp.Prompt
	render   PromptFunc
	complete map[string]CompleteFunc
}

// ServedPrompt is a prompt with the functions that serve it; see Service.AddPrompt.
type ServedPrompt struct {
	Prompt   mcp.Prompt
	Render   PromptFunc
	Complete map[string]CompleteFunc
}

// AddPrompt adds a prompt. complete suggests values by argument name; nil for
// none.
func (s *Service) AddPrompt(p mcp.Prompt, render PromptFunc, complete map[string]CompleteFunc) {
	s.register("prompt "+p.Name, func() error {
		return s.addPrompt(s.prompts, ServedPrompt{p, render, complete})
	})
}

// SetPrompts replaces all prompts of the service at once, so that clients are notified once. If one
// of them cannot be added, nothing changes.
func (s *Service) SetPrompts(all []ServedPrompt) {
	s.register("prompts", func() error {
		prompts := map[string]*prompt{}
		for _, p := range all {
			if err := s.addPrompt(prompts, p); err != nil {
				return fmt.Errorf("%s: %w", p.Prompt.Name, err)
			}
		}
		s.prompts = prompts
		return nil
	})
}

func (s *Service) addPrompt(prompts map[string]*prompt, p ServedPrompt) error {
	if p.Prompt.Name == "" {
		return errors.New("a prompt needs a name")
	}
	if p.Render == nil {
		return errNoFunction
	}
	p.Prompt.Name = s.namespace + p.Prompt.Name
	name := p.Prompt.Name
	if prompts[name] != nil {
		return errors.New("added twice")
	}
	data, err := marshal(p.Prompt)
	if err != nil {
		return err
	}
	prompts[name] = &prompt{wire: &busv1.Prompt{Name: name, Json: data}, prompt: p.Prompt, render: p.Render, complete: p.Complete}
	return nil
}

// RemovePrompt removes a prompt.
func (s *Service) RemovePrompt(name string) {
	name = s.namespace + name
	s.register("prompt "+name, func() error {
		delete(s.prompts, name)
		return nil
	})
}

// prompt finds a prompt: the tenant's own, or one for all callers. A prompt that is missing here
// may already exist at another instance, so the service is refreshed first.
func (s *Service) prompt(ctx context.Context, call *Call, name string) (*prompt, error) {
	own := look(s, func() FindPromptFunc { return s.tenantPrompts.find })
	if own != nil && call.Tenant() != "" {
		if p, err := own(ctx, call, name); p != nil || err != nil {
			return newPrompt(p, err)
		}
	}
	find := func() *prompt { return s.prompts[name] }
	p := look(s, find)
	if p == nil && s.refresh != nil && (own == nil || call.Tenant() == "") {
		err := s.refresh.ask(ctx)
		if p = look(s, find); p == nil && err != nil {
			var f *fault.Error
			if !errors.As(err, &f) {
				err = fault.New(fault.Unavailable, "the prompts cannot be read; try again shortly").Because(err)
			}
			return nil, err // the prompt may exist
		}
	}
	if p == nil {
		return nil, unknownPrompt(name)
	}
	return p, nil
}

func newPrompt(p *ServedPrompt, err error) (*prompt, error) {
	if err != nil {
		return nil, err
	}
	return &prompt{prompt: p.Prompt, render: p.Render, complete: p.Complete}, nil
}

func unknownPrompt(name string) error {
	return fault.New(fault.UnknownPrompt, "Unknown prompt: %s", fault.Clip(name))
}

func (s *Service) getPrompt(ctx context.Context, call *Call) (*busv1.Result, error) {
	p, err := s.prompt(ctx, call, call.req.Name)
	if err != nil {
		return nil, err
	}
	arguments := map[string]string{}
	if len(call.req.Arguments) > 0 {
		var given map[string]*string
		if err := json.Unmarshal(call.req.Arguments, &given); err != nil {
			return nil, fault.New(fault.InvalidParams, "params.arguments of a prompt must be strings").Because(err)
		}
		for name, v := range given {
			if v == nil {
				return nil, fault.New(fault.InvalidParams, "params.arguments.%s must be a string", name)
			}
			arguments[name] = *v
		}
	}
	for _, a := range p.prompt.Arguments {
		if _, ok := arguments[a.Name]; a.Required && !ok {
			return nil, fault.New(fault.InvalidParams, "params.arguments.%s is required", a.Name)
		}
	}
	messages, err := p.render(ctx, call, arguments)
	if err != nil {
		return nil, err
	}
	if messages == nil {
		messages = []mcp.PromptMessage{}
	}
	data, err := marshal(struct {
		Description string              `json:"description,omitzero"`
		Messages    []mcp.PromptMessage `json:"messages"`
	}{p.prompt.Description, messages})
	if err != nil {
		return nil, err
	}
	return &busv1.Result{Json: data}, nil
}

// maxCompletions is the protocol's limit for one answer.
const maxCompletions = 100

func (s *Service) complete(ctx context.Context, call *Call) (*busv1.Result, error) {
	var p mcp.CompleteParams
	if err := json.Unmarshal(call.req.Arguments, &p); err != nil {
		return nil, fault.New(fault.InvalidParams, "params of completion/complete need a ref and an argument").Because(err)
	}
	f, err := s.completer(ctx, call, &p)
	if err != nil {
		return nil, err
	}
	values := []string{}
	if f != nil {
		if values, err = f(ctx, call, p.Argument.Value, p.Context.Arguments); err != nil {
			return nil, err
		}
	}
	total := len(values)
	type body struct {
		Values  []string `json:"values"`
		Total   int      `json:"total"`
		HasMore bool     `json:"hasMore"`
	}
	data, err := marshal(map[string]body{"completion": {values[:min(total, maxCompletions)], total, total > maxCompletions}})
	if err != nil {
		return nil, err
	}
	return &busv1.Result{Json: data}, nil
}

// completer returns the function that completes an argument; nil for none.
func (s *Service) completer(ctx context.Context, call *Call, p *mcp.CompleteParams) (CompleteFunc, error) {
	switch p.Ref.Type {
	case "ref/prompt":
		found, err := s.prompt(ctx, call, p.Ref.Name)
		if err != nil {
			return nil, err
		}
		return found.complete[p.Argument.Name], nil
	case "ref/resource":
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, t := range s.templates {
			if t.wire.UriTemplate == p.Ref.URI {
				return t.complete[p.Argument.Name], nil
			}
		}
		return nil, unknownResource(p.Ref.URI)
	}
	return nil, fault.New(fault.InvalidParams, "params.ref.type must be ref/prompt or ref/resource")
}
