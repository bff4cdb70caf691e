package client

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/schema"
	"github.com/busbar-mcp/busbar/services/busbar/internal/terminal"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// person is who sits at the terminal and answers what a server asks.
type person struct {
	*run
	in io.Reader
	// denied is whether the last question was one for approval, and the answer no.
	denied bool
}

// canAnswer reports whether there is somebody, and all questions are ones to answer
// here.
func (p *person) canAnswer(requests []InputRequest) bool {
	for _, q := range requests {
		if q.Method != mcp.MethodElicit || q.URL == "" && q.Form == nil {
			return false
		}
	}
	return p.asks && len(requests) > 0
}

// approvalKey is the question whether a call may run, which the edge asks.
const approvalKey = "io.github.busbar-mcp/approval"

// Words of MCP for what became of a question.
const accepted, declined, cancelled = "accept", "decline", "cancel"

// elicited is an ElicitResult.
type elicited struct {
	Action  string         `json:"action"`
	Content jsontext.Value `json:"content,omitzero"`
}

// answer puts questions to the person, one after the other.
func (p *person) answer(ctx context.Context, requests []InputRequest) (jsontext.Value, error) {
	all := map[string]elicited{}
	for _, q := range requests {
		said, err := p.elicit(ctx, q)
		if err != nil {
			return nil, err
		}
		all[q.Key] = said
		p.denied = q.Key == approvalKey && string(at(said.Content, []string{"approve"})) != "true"
	}
	return json.Marshal(all, json.Deterministic(true))
}

func (p *person) elicit(ctx context.Context, q InputRequest) (elicited, error) {
	fmt.Fprintln(p.stderr, p.errStyle.Bold(terminal.SafeText(q.Message)))
	if q.URL != "" {
		fmt.Fprintln(p.stderr, "  open "+terminal.SafeLine(q.URL))
		yes, err := Confirm(ctx, "done?", p.in, p.stderr)
		if err != nil || !yes {
			return elicited{Action: declined}, err
		}
		return elicited{Action: accepted}, nil
	}
	var content bytes.Buffer
	content.WriteByte('{')
	f := newForm(q.Form)
	for _, name := range f.names() {
		value, action, err := p.fill(ctx, f, name)
		if err != nil || action != accepted {
			return elicited{Action: action}, err
		}
		if value == nil {
			continue
		}
		if content.Len() > 1 {
			content.WriteByte(',')
		}
		key, err := jsontext.AppendQuote(nil, name)
		if err != nil {
			return elicited{}, err
		}
		content.Write(key)
		content.WriteByte(':')
		content.Write(value)
	}
	content.WriteByte('}')
	return elicited{accepted, content.Bytes()}, nil
}

// fill asks for one field until what is typed fits. An empty line takes the default,
// or leaves the field out where it may be; the end of the input cancels.
func (p *person) fill(ctx context.Context, f *form, name string) (value jsontext.Value, action string, err error) {
	field := f.field(name)
	prompt := "  " + label(name, field)
	for {
		fmt.Fprint(p.stderr, prompt)
		line, err := readAll(ctx, &firstLine{in: p.in})
		if err != nil {
			return nil, cancelled, err
		}
		text := strings.TrimSpace(string(line))
		switch {
		case !strings.HasSuffix(string(line), "\n") && text == "":
			fmt.Fprintln(p.stderr)
			return nil, cancelled, nil
		case text == "" && len(field.Default) > 0:
			return field.Default, accepted, nil
		case text == "" && !f.required(name):
			return nil, accepted, nil
		case text == "" && field.is("boolean"):
			text = "no"
		case text == "":
			fmt.Fprintln(p.stderr, "  an answer is needed; Ctrl-D gives none and ends the call")
			continue
		}
		if field.is("boolean") {
			switch strings.ToLower(text) {
			case "y", "yes":
				text = "true"
			case "n", "no":
				text = "false"
			}
		}
		if value, err = field.typed(text); err == nil {
			err = f.fits(name, value)
		}
		if err == nil {
			return value, accepted, nil
		}
		fmt.Fprintln(p.stderr, "  "+terminal.SafeLine(err.Error()))
	}
}

// typed is the value that a line stands for: elements of an array have commas between
// them, unless it is written as JSON.
func (s *shape) typed(line string) (jsontext.Value, error) {
	if !s.is("array") || strings.HasPrefix(line, "[") {
		return s.value(line)
	}
	var all []jsontext.Value
	for one := range strings.SplitSeq(line, ",") {
		v, err := s.element().value(strings.TrimSpace(one))
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return json.Marshal(all)
}

// fits says what is wrong with the value of a field. A value whose schema cannot be understood fits: the
// edge has the last word.
func (f *form) fits(name string, value jsontext.Value) error {
	of, err := schema.Compile(at(f.Properties, []string{name}))
	if err != nil {
		return nil
	}
	return of.Validate(value)
}

// label asks for a field: what it is called, what may be typed, and what an empty line
// means.
func label(name string, field *shape) string {
	text := terminal.SafeLine(name)
	if field.Title != "" {
		text = terminal.SafeLine(field.Title)
	}
	if field.Description != "" {
		text += " - " + terminal.SafeLine(field.Description)
	}
	switch {
	case field.is("boolean"):
		text += "? [y/N]"
		if string(field.Default) == "true" {
			text = strings.TrimSuffix(text, "[y/N]") + "[Y/n]"
		}
		return text + " "
	case field.is("array"):
		text += " (several with commas between"
		if choices := field.element().choices(); len(choices) > 0 {
			text += ": " + terminal.SafeLine(strings.Join(choices, ", "))
		}
		text += ")"
	case len(field.choices()) > 0:
		text += " (" + terminal.SafeLine(strings.Join(field.choices(), ", ")) + ")"
	case !field.is("string"):
		text += " (" + terminal.SafeLine(strings.Join(field.types, " or ")) + ")"
	}
	if len(field.Default) > 0 {
		text += " [" + terminal.SafeLine(plainScalar(field.Default)) + "]"
	}
	return text + ": "
}
