package template

import (
	"fmt"
	"slices"
	"strings"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
)

// Limits of a rendered template.
const (
	// MaxOutput is the total size of the texts of a rendered prompt, in bytes.
	//limit:store a prompt with its arguments filled in | `invalid_params`
	MaxOutput = 256 << 10
	maxSteps  = 200_000
)

// Template is a checked definition. It is immutable.
type Template struct {
	definition Definition
	arguments  map[string]*Argument
	// bodies holds the messages by language, in lower case.
	bodies map[string][]part
}

// part becomes one message.
type part struct {
	role    string
	text    []node // of type text
	content mcp.Content
	isText  bool
}

// Compile checks a definition: limits, names, types, and the texts of all
// languages. The error says what to change, for its author.
func Compile(d Definition) (*Template, error) {
	d.Arguments = slices.Clone(d.Arguments)
	if err := d.check(); err != nil {
		return nil, err
	}
	if len(d.Variants) > 0 {
		tags := []string{d.language()}
		for t := range d.Variants {
			tags = append(tags, t)
		}
		slices.Sort(tags[1:])
		d.Arguments = append(d.Arguments, Argument{
			Name: LanguageArgument, Type: String, Suggestions: tags,
			Description: "Language of the prompt: " + strings.Join(tags, ", ") + "; several in order of preference, separated by commas. For any other language the first of these is used",
		})
	}
	t := &Template{definition: d, arguments: map[string]*Argument{}, bodies: map[string][]part{}}
	for i := range d.Arguments {
		t.arguments[d.Arguments[i].Name] = &d.Arguments[i]
	}
	var err error
	if t.bodies[strings.ToLower(d.language())], err = t.compile(d.Messages); err != nil {
		return nil, err
	}
	for tag, v := range d.Variants {
		if t.bodies[strings.ToLower(tag)], err = t.compile(v.Messages); err != nil {
			return nil, fmt.Errorf("variant %s: %w", tag, err)
		}
	}
	return t, nil
}

func (t *Template) compile(messages []Message) ([]part, error) {
	if len(messages) == 0 || len(messages) > maxMessages {
		return nil, fmt.Errorf("messages: give 1 to %d", maxMessages)
	}
	var parts []part
	for i, m := range messages {
		if m.Role != "user" && m.Role != "assistant" {
			return nil, fmt.Errorf("messages[%d].role is neither user nor assistant", i)
		}
		if len(m.Content) == 0 || len(m.Content) > maxParts {
			return nil, fmt.Errorf("messages[%d].content: give 1 to %d parts", i, maxParts)
		}
		for j := range m.Content {
			p, err := t.compilePart(m.Role, &m.Content[j])
			if err != nil {
				return nil, fmt.Errorf("messages[%d].content[%d]: %w", i, j, err)
			}
			parts = append(parts, p)
		}
	}
	return parts, nil
}

func (t *Template) compilePart(role string, p *Part) (part, error) {
	out := part{role: role}
	if err := p.check(); err != nil {
		return out, err
	}
	var err error
	switch p.Type {
	case "text":
		out.isText = true
		out.text, err = parse(p.Text, t.arguments)
	case "image":
		out.content = mcp.Image(p.Data, p.MIMEType)
	case "resource":
		out.content = mcp.Embed(mcp.ResourceContents{URI: p.URI, MIMEType: p.MIMEType, Text: p.Text})
	case "resource_link":
		out.content = mcp.Link(mcp.Resource{URI: p.URI, Name: p.Name, Title: p.Title, Description: p.Description, MIMEType: p.MIMEType})
	}
	return out, err
}

// Definition returns the definition of the template, including the argument for the
// language, if there is one.
func (t *Template) Definition() *Definition { return &t.definition }

// Prompt returns the template in the form for lists.
func (t *Template) Prompt() mcp.Prompt {
	p := mcp.Prompt{Name: t.definition.Name, Title: t.definition.Title, Description: t.definition.Description}
	for _, a := range t.definition.Arguments {
		p.Arguments = append(p.Arguments, mcp.PromptArgument{Name: a.Name, Title: a.Title, Description: a.describe(), Required: a.Required})
	}
	return p
}

// describe puts into words the properties for which the protocol has no field.
func (a *Argument) describe() string {
	var more []string
	switch a.Type {
	case Enum:
		more = append(more, "one of "+strings.Join(a.Values, ", "))
	case Boolean:
		more = append(more, "true or false")
	case Integer:
		more = append(more, "an integer")
	case Number:
		more = append(more, "a number")
	case List:
		more = append(more, "one item on each line, or items separated by commas")
	}
	if a.Default != nil && *a.Default != "" {
		more = append(more, "default "+*a.Default)
	}
	switch {
	case len(more) == 0:
		return a.Description
	case a.Description == "":
		return strings.ToUpper(more[0][:1]) + strings.Join(more, "; ")[1:]
	}
	return a.Description + " (" + strings.Join(more, "; ") + ")"
}

// Complete suggests values of an argument that begin with typed.
func (t *Template) Complete(argument, typed string) []string {
	a := t.arguments[argument]
	if a == nil {
		return nil
	}
	choices := a.Values
	switch {
	case a.Type == Boolean:
		choices = []string{"true", "false"}
	case a.Type != Enum:
		choices = a.Suggestions
	}
	var begin, contain []string
	typed = strings.ToLower(typed)
	for _, c := range choices {
		switch lower := strings.ToLower(c); {
		case strings.HasPrefix(lower, typed):
			begin = append(begin, c)
		case strings.Contains(lower, typed):
			contain = append(contain, c)
		}
	}
	return append(begin, contain...)
}

// Render returns the messages for a client's arguments. Their number, order and roles
// are the template's, except that an empty text is dropped. The error is for the client
// and names the argument.
func (t *Template) Render(arguments map[string]string) ([]mcp.PromptMessage, error) {
	r := renderer{values: map[string]value{}}
	for name, s := range arguments {
		a := t.arguments[name]
		if a == nil {
			return nil, bad(name, fmt.Sprintf("is not an argument of prompt %s", t.definition.Name))
		}
		v, err := a.parse(s)
		if err != nil {
			return nil, bad(name, err.Error())
		}
		r.values[name] = v
	}
	for _, a := range t.definition.Arguments {
		if _, given := r.values[a.Name]; given {
			continue
		}
		if a.Required {
			return nil, bad(a.Name, "is required")
		}
		if a.Default != nil {
			r.values[a.Name], _ = a.parse(*a.Default)
		}
	}
	var out []mcp.PromptMessage
	for _, p := range t.bodies[t.choose(arguments[LanguageArgument])] {
		if !p.isText {
			out = append(out, mcp.PromptMessage{Role: p.role, Content: p.content})
			continue
		}
		text, err := r.text(p.text)
		if err != nil {
			return nil, err
		}
		if strings.TrimSpace(text) != "" {
			out = append(out, mcp.PromptMessage{Role: p.role, Content: mcp.Text(text)})
		}
	}
	return out, nil
}

// choose selects a language by the lookup of RFC 4647 (3.4): it tries each requested tag,
// and then shortens it step by step.
func (t *Template) choose(asked string) string {
	for _, want := range strings.Split(strings.ToLower(asked), ",") {
		for want = strings.TrimSpace(want); want != ""; {
			if _, ok := t.bodies[want]; ok {
				return want
			}
			cut := strings.LastIndexByte(want, '-')
			if cut < 0 {
				break
			}
			want = want[:cut]
			// A single letter begins an extension, so at the end it has no meaning.
			if cut = strings.LastIndexByte(want, '-'); cut >= 0 && cut == len(want)-2 {
				want = want[:cut]
			}
		}
	}
	return strings.ToLower(t.definition.language())
}

func bad(name, why string) error {
	return fault.New(fault.InvalidParams, "params.arguments.%s %s", fault.Clip(name), why)
}
