package servicetest

import (
	"encoding/base64"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/yosida95/uritemplate/v3"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus/registry"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
)

// Read reads a resource. The error is a *fault.Error.
func (b *Bus) Read(uri string) ([]mcp.ResourceContents, error) {
	b.t.Helper()
	svc := b.service(func(c *busv1.Catalogue) bool { return reads(c, uri) })
	if svc == "" {
		return nil, fault.New(fault.UnknownResource, "no service reads %s", uri)
	}
	result, err := b.ask(svc, b.request(mcp.MethodResourcesRead, uri))
	if err != nil {
		return nil, err
	}
	var body struct {
		Contents []struct {
			URI      string   `json:"uri"`
			MIMEType string   `json:"mimeType"`
			Text     string   `json:"text"`
			Blob     *string  `json:"blob"`
			Meta     mcp.Meta `json:"_meta"`
		} `json:"contents"`
	}
	if err := json.Unmarshal(result, &body); err != nil {
		b.t.Fatalf("servicetest: the contents of %s cannot be read: %v", uri, err)
	}
	all := make([]mcp.ResourceContents, 0, len(body.Contents))
	for _, c := range body.Contents {
		one := mcp.ResourceContents{URI: c.URI, MIMEType: c.MIMEType, Text: c.Text, Meta: c.Meta}
		if c.Blob != nil {
			if one.Blob, err = base64.StdEncoding.DecodeString(*c.Blob); err != nil {
				b.t.Fatalf("servicetest: the blob of %s is not base64: %v", uri, err)
			}
		}
		all = append(all, one)
	}
	return all, nil
}

// reads reports whether a service reads a URI, by the rules of an edge.
func reads(c *busv1.Catalogue, uri string) bool {
	for _, r := range c.GetResources() {
		if r.Uri == uri {
			return true
		}
	}
	for _, t := range c.GetResourceTemplates() {
		if pattern, err := uritemplate.New(t.UriTemplate); err == nil && pattern.Match(uri) != nil {
			return true
		}
	}
	for _, prefix := range c.GetResourcePrefixes() {
		if strings.HasPrefix(uri, prefix) {
			return true
		}
	}
	return false
}

// Message is one message of a prompt.
type Message struct {
	Role string
	// Text is the text of the content; empty for content of another kind.
	Text string
}

// Prompt renders a prompt. The error is a *fault.Error.
func (b *Bus) Prompt(name string, arguments map[string]string) ([]Message, error) {
	b.t.Helper()
	svc := b.prompter(name)
	if svc == "" {
		return nil, fault.New(fault.UnknownPrompt, "Unknown prompt: %s", name)
	}
	req := b.request(mcp.MethodPromptsGet, name)
	var err error
	if req.Arguments, err = json.Marshal(arguments); err != nil {
		return nil, err
	}
	result, err := b.ask(svc, req)
	if err != nil {
		return nil, err
	}
	var body struct {
		Messages []struct {
			Role    string `json:"role"`
			Content struct {
				Text string `json:"text"`
			} `json:"content"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(result, &body); err != nil {
		b.t.Fatalf("servicetest: the messages of %s cannot be read: %v", name, err)
	}
	all := make([]Message, 0, len(body.Messages))
	for _, m := range body.Messages {
		all = append(all, Message{m.Role, m.Content.Text})
	}
	return all, nil
}

// CompletePrompt returns the suggestions for an argument of a prompt. typed is the text entered so
// far; others are the arguments already known, nil for none.
func (b *Bus) CompletePrompt(prompt, argument, typed string, others map[string]string) ([]string, error) {
	b.t.Helper()
	p := &mcp.CompleteParams{}
	p.Ref.Type, p.Ref.Name = "ref/prompt", prompt
	return b.complete(p, argument, typed, others)
}

// CompleteResource returns the suggestions for a variable of a URI template.
func (b *Bus) CompleteResource(template, variable, typed string, others map[string]string) ([]string, error) {
	b.t.Helper()
	p := &mcp.CompleteParams{}
	p.Ref.Type, p.Ref.URI = "ref/resource", template
	return b.complete(p, variable, typed, others)
}

func (b *Bus) complete(p *mcp.CompleteParams, argument, typed string, others map[string]string) ([]string, error) {
	b.t.Helper()
	p.Argument.Name, p.Argument.Value, p.Context.Arguments = argument, typed, others
	var svc string
	if p.Ref.Type == "ref/prompt" {
		svc = b.prompter(p.Ref.Name)
	} else {
		svc = b.service(func(c *busv1.Catalogue) bool {
			return slices.ContainsFunc(c.GetResourceTemplates(), func(t *busv1.ResourceTemplate) bool { return t.UriTemplate == p.Ref.URI })
		})
	}
	if svc == "" {
		return nil, fault.New(fault.InvalidParams, "no service completes %s%s", p.Ref.Name, p.Ref.URI)
	}
	req := b.request(mcp.MethodComplete, "")
	var err error
	if req.Arguments, err = json.Marshal(p); err != nil {
		return nil, err
	}
	result, err := b.ask(svc, req)
	if err != nil {
		return nil, err
	}
	var body struct {
		Completion struct {
			Values []string `json:"values"`
		} `json:"completion"`
	}
	if err := json.Unmarshal(result, &body); err != nil {
		b.t.Fatalf("servicetest: a completion cannot be read: %v", err)
	}
	return body.Completion.Values, nil
}

// prompter is the service that has a prompt, or the prompts of the caller's tenant;
// empty for none.
func (b *Bus) prompter(name string) string {
	has := func(c *busv1.Catalogue) bool {
		return slices.ContainsFunc(c.GetPrompts(), func(p *busv1.Prompt) bool { return p.Name == name })
	}
	if svc := b.service(has); svc != "" || b.identity.GetTenant() == "" {
		return svc
	}
	return b.service((*busv1.Catalogue).GetListsPrompts)
}

// service is the first service whose catalogue does accepts; empty for none.
func (b *Bus) service(does func(*busv1.Catalogue) bool) string {
	for _, s := range b.shared.registry.Services() {
		if does(s.Catalogue) {
			return s.Name
		}
	}
	return ""
}

// ask makes a call and returns its result's JSON.
func (b *Bus) ask(svc string, req *busv1.Request) ([]byte, error) {
	frame, err := b.rounds(b.t.Context(), &Result{}, svc, req)
	if err != nil {
		return nil, fault.From(err)
	}
	return frame.GetResult().GetJson(), nil
}

// Instructions returns a service's own instructions for models, empty for none; edges limit them
// and join the instructions of all services.
func (b *Bus) Instructions(service string) string {
	for _, s := range b.Services() {
		if s.Name == service {
			return s.Catalogue.GetInstructions()
		}
	}
	return ""
}

// Services returns the services on the bus, by name.
func (b *Bus) Services() []registry.Service { return b.shared.registry.Services() }
