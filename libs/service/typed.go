package service

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/schema"
)

// Prompt describes a prompt whose arguments are a struct. Only Name is required.
type Prompt struct {
	Name        string
	Title       string
	Description string
	Icons       []mcp.Icon
	// Meta is the prompt's _meta in lists; see Tool.Meta.
	Meta any
	// Complete has functions that suggest values, by the names of arguments. Arguments with an enum
	// need none.
	Complete map[string]CompleteFunc
}

// AddPrompt adds a prompt whose arguments are In: a struct of strings, numbers and booleans. Its
// tags describe the arguments and the values they take, as in AddTool; values that do not match are
// refused before render is called. In MCP these arguments are always text; an empty optional
// argument counts as not given.
func AddPrompt[In any](s *Service, p Prompt, render func(ctx context.Context, call *Call, in In) ([]mcp.PromptMessage, error)) {
	s.register("prompt "+p.Name, func() error {
		if render == nil {
			return errNoFunction
		}
		t, err := textsOf[In](p.Complete)
		if err != nil {
			return err
		}
		meta, err := metaOf(p.Meta)
		if err != nil {
			return err
		}
		shown := mcp.Prompt{Name: p.Name, Title: p.Title, Description: p.Description, Icons: p.Icons, Arguments: t.arguments(), Meta: meta}
		return s.addPrompt(s.prompts, ServedPrompt{shown, func(ctx context.Context, call *Call, given map[string]string) ([]mcp.PromptMessage, error) {
			in, err := read[In](t, given)
			if err != nil {
				return nil, err
			}
			return render(ctx, call, in)
		}, t.complete})
	})
}

// Template describes a family of resources whose variables are a struct. URITemplate and
// Name are required.
type Template struct {
	// URITemplate is as in RFC 6570.
	URITemplate string
	Name        string
	Title       string
	Description string
	MIMEType    string
	Icons       []mcp.Icon
	Annotations *mcp.Annotations
	// Meta is the template's _meta in lists; see Tool.Meta.
	Meta any
	// Complete is as in Prompt, for variables.
	Complete map[string]CompleteFunc
}

// AddTemplate adds every resource whose URI matches a template with the variables Vars: a struct
// with a string, number or boolean field for each. A URI whose variables do not match names no
// resource. Contents without a URI or a MIME type get the resource's.
func AddTemplate[Vars any](s *Service, t Template, get func(ctx context.Context, call *Call, vars Vars) ([]mcp.ResourceContents, error)) {
	s.register("resource template "+t.URITemplate, func() error {
		if get == nil {
			return errNoFunction
		}
		texts, err := textsOf[Vars](t.Complete)
		if err != nil {
			return err
		}
		meta, err := metaOf(t.Meta)
		if err != nil {
			return err
		}
		shown := mcp.ResourceTemplate{
			URITemplate: t.URITemplate, Name: t.Name, Title: t.Title, Description: t.Description, MIMEType: t.MIMEType, Icons: t.Icons, Annotations: t.Annotations, Meta: meta,
		}
		added, err := s.template(shown, func(ctx context.Context, call *Call, uri string, given map[string]string) ([]mcp.ResourceContents, error) {
			vars, err := read[Vars](texts, given)
			if err != nil {
				return nil, unknownResource(uri)
			}
			return get(ctx, call, vars)
		}, texts.complete)
		if err != nil {
			return err
		}
		variables := added.pattern.Varnames()
		slices.Sort(variables)
		if fields := slices.Sorted(maps.Keys(texts.schema.Properties)); !slices.Equal(slices.Compact(variables), fields) {
			return fmt.Errorf("the template has the variables %s, and the struct %s", strings.Join(variables, ", "), strings.Join(fields, ", "))
		}
		s.templates = append(s.templates, added)
		return nil
	})
}

// texts reads a struct from named texts: the arguments of a prompt, or the variables of a template.
type texts struct {
	schema   *jsonschema.Schema
	compiled *schema.Schema
	defaults defaults
	complete map[string]CompleteFunc
}

func textsOf[T any](complete map[string]CompleteFunc) (*texts, error) {
	s, d, err := inferArguments(reflect.TypeFor[T]())
	if err != nil {
		return nil, err
	}
	t := &texts{schema: s, defaults: d, complete: maps.Clone(complete)}
	if t.complete == nil {
		t.complete = map[string]CompleteFunc{}
	}
	for name := range complete {
		if s.Properties[name] == nil {
			return nil, fmt.Errorf("%s is completed, and no field", name)
		}
	}
	for name, p := range s.Properties {
		if !slices.Contains([]string{"string", "integer", "number", "boolean"}, typeOf(p)) {
			return nil, fmt.Errorf("field %s is neither text, a number, nor yes or no", name)
		}
		if optional(p) {
			s.Required = slices.DeleteFunc(s.Required, func(r string) bool { return r == name })
		}
		if values := choices(p); t.complete[name] == nil && values != nil {
			t.complete[name] = completeFrom(values)
		}
	}
	raw, err := plain(s)
	if err != nil {
		return nil, err
	}
	t.compiled, err = schema.Compile(raw)
	return t, err
}

// choices are the values that a schema allows for a text; nil for any.
func choices(s *jsonschema.Schema) (values []string) {
	if s.Type == "boolean" {
		return []string{"true", "false"}
	}
	for _, v := range s.Enum {
		raw, err := marshal(v)
		if err != nil {
			return nil
		}
		var text string
		if json.Unmarshal(raw, &text) != nil {
			text = string(raw)
		}
		values = append(values, text)
	}
	return values
}

func completeFrom(values []string) CompleteFunc {
	return func(_ context.Context, _ *Call, typed string, _ map[string]string) (fit []string, err error) {
		for _, v := range values {
			if strings.HasPrefix(v, typed) {
				fit = append(fit, v)
			}
		}
		return fit, nil
	}
}

// arguments returns the fields as prompt arguments, in their order.
func (t *texts) arguments() (all []mcp.PromptArgument) {
	for _, name := range t.schema.PropertyOrder {
		p := t.schema.Properties[name]
		all = append(all, mcp.PromptArgument{Name: name, Title: p.Title, Description: p.Description, Required: slices.Contains(t.schema.Required, name)})
	}
	return all
}

// read makes a T from texts. The error is meant for the client.
func read[T any](t *texts, given map[string]string) (T, error) {
	var out T
	values := map[string]jsontext.Value{}
	for name, text := range given {
		p := t.schema.Properties[name]
		switch {
		case p == nil:
			return out, Invalid(name, "there is no such argument")
		case text == "" && !slices.Contains(t.schema.Required, name):
			continue
		case p.Type == "string":
			quoted, err := jsontext.AppendQuote(nil, text)
			if err != nil {
				return out, Invalid(name, "it is no UTF-8")
			}
			values[name] = quoted
		default:
			if v := jsontext.Value(text); !v.IsValid() || v.Kind() == '"' {
				return out, Invalid(name, "got %.50q, want %s", text, p.Type)
			}
			values[name] = jsontext.Value(text)
		}
	}
	raw, err := marshal(values)
	if err != nil {
		return out, err
	}
	var invalid *schema.InvalidError
	if err := t.compiled.Validate(raw); errors.As(err, &invalid) {
		first := invalid.Problems[0]
		return out, Invalid(strings.TrimPrefix(first.Path, "/"), "%s", first.Message)
	} else if err != nil {
		return out, err
	}
	if err := json.Unmarshal(raw, t.defaults.of(&out), durations); err != nil {
		at, message := misread(err)
		return out, Invalid(strings.TrimPrefix(at, "/"), "%s", message)
	}
	return out, nil
}
