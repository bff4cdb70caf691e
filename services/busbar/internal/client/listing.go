package client

import (
	"fmt"
	"slices"
	"strings"

	"github.com/busbar-mcp/busbar/services/busbar/internal/terminal"
	"github.com/go-json-experiment/json/jsontext"
)

// toolsJSON is the tools' definitions as received: one array, one line.
func toolsJSON(tools []Tool) string {
	raw := make([]string, len(tools))
	for i, t := range tools {
		raw[i] = oneLine(t.Raw)
	}
	return "[" + strings.Join(raw, ",") + "]\n"
}

// toolsPlain is a line for each tool: name, tab, description.
func toolsPlain(tools []Tool) string {
	var b strings.Builder
	for _, t := range tools {
		fmt.Fprintf(&b, "%s\t%s\n", terminal.SafeLine(t.Name), terminal.SafeLine(about(t)))
	}
	return b.String()
}

// about is what a tool says of itself, in the most words.
func about(t Tool) string {
	if t.Description != "" {
		return t.Description
	}
	return title(t)
}

func title(t Tool) string {
	if t.Title == "" && t.Annotations != nil {
		return t.Annotations.Title
	}
	return t.Title
}

// toolsOverview is the list for people: a line for each tool, below the service that it
// is of where that is known.
func toolsOverview(tools []Tool, of map[string]origin, limit int, s terminal.Style) string {
	var b strings.Builder
	groups := map[string][]row{}
	var services []string
	for _, t := range tools {
		service := of[t.Name].Service
		if groups[service] == nil {
			services = append(services, service)
		}
		about := terminal.SafeLine(about(t))
		if hint := hints(t); hint == destructive {
			about = strings.TrimSpace(hint + " " + about)
		}
		groups[service] = append(groups[service], row{terminal.SafeLine(t.Name), about})
	}
	slices.Sort(services)
	for i, service := range services {
		if i > 0 {
			b.WriteByte('\n')
		}
		indent := ""
		if service != "" {
			b.WriteString(s.Dim(terminal.SafeLine(service)) + "\n")
			indent = "  "
		}
		b.WriteString(tableRows(groups[service], limit, indent, s))
	}
	return b.String()
}

// toolDetails is all that is known of a tool.
func toolDetails(t Tool, of origin, limit int, s terminal.Style) string {
	var b strings.Builder
	b.WriteString(heading(t, limit, s))
	if t.Description != "" {
		for _, line := range terminal.Wrap(terminal.SafeText(t.Description), limit-2) {
			fmt.Fprintln(&b, strings.TrimRight("  "+line, " "))
		}
	}
	b.WriteByte('\n')
	facts := []row{{"service", strings.TrimSpace(terminal.SafeLine(of.Service + " " + of.Version))}}
	if of.Approval {
		facts = append(facts, row{"approval", "a person agrees to each call"})
	}
	if a := t.Annotations; a != nil {
		for _, hint := range []struct {
			name string
			is   *bool
		}{{"read-only", a.ReadOnlyHint}, {"destructive", a.DestructiveHint}, {"idempotent", a.IdempotentHint}, {"open world", a.OpenWorldHint}} {
			if hint.is != nil {
				facts = append(facts, row{hint.name, map[bool]string{true: "yes", false: "no"}[*hint.is]})
			}
		}
	}
	for _, f := range facts {
		if f.about != "" {
			fmt.Fprintf(&b, "  %s%s  %s\n", s.Dim(f.name), pad(f.name, len("destructive")), f.about)
		}
	}
	rows := parameters(t.InputSchema)
	if len(rows) > 0 {
		b.WriteString("\n  " + s.Dim("takes") + "\n")
		writeParameters(&b, rows, limit, s)
	}
	if out := parameters(t.OutputSchema); len(out) > 0 {
		b.WriteString("\n  " + s.Dim("gives") + "\n")
		writeParameters(&b, out, limit, s)
	}
	if slices.ContainsFunc(rows, func(p parameter) bool { return p.required }) {
		b.WriteString("\n  " + s.Dim("* required") + "\n")
	}
	b.WriteString("\n  " + s.Dim("try") + "  " + example(t.Name, rows) + "\n")
	return b.String()
}

// example is a command that calls a tool, with what it requires.
func example(name string, rows []parameter) string {
	command := "busbar call " + terminal.SafeLine(name)
	for _, p := range rows {
		if p.required {
			command += " " + p.name + "=…"
		}
	}
	return command
}

// heading is a tool's name, hints and title; the title has its own line where
// it would not fit.
func heading(t Tool, limit int, s terminal.Style) string {
	name, hints := terminal.SafeLine(t.Name), hints(t)
	line, used := s.Bold(name), terminal.Cells(name)
	if hints != "" {
		line, used = line+"  "+s.Dim(hints), used+2+terminal.Cells(hints)
	}
	text := terminal.SafeLine(title(t))
	switch {
	case text == "":
		return line + "\n"
	case used+2+terminal.Cells(text) <= limit:
		return line + "  " + text + "\n"
	}
	return line + "\n  " + strings.Join(terminal.Wrap(text, limit-2), "\n  ") + "\n"
}

const destructive = "[destructive]"

// hints is what matters most of a tool's annotations.
func hints(t Tool) string {
	switch a := t.Annotations; {
	case a == nil:
	case a.ReadOnlyHint != nil && *a.ReadOnlyHint:
		return "[read-only]"
	case a.DestructiveHint != nil && *a.DestructiveHint:
		return destructive
	}
	return ""
}

// parameter is one row of a tool's parameters.
type parameter struct {
	name, kind, description string
	required                bool
}

// parameters reads the top level of a schema, in its order. A schema that says it
// differently has no rows.
func parameters(schema jsontext.Value) []parameter {
	f := newForm(schema)
	var rows []parameter
	for _, name := range f.names() {
		p := parameter{name: terminal.SafeLine(name), required: f.required(name), kind: "any"}
		if s := f.field(name); s != nil {
			word, inWords := s.kind()
			p.kind, p.description = terminal.SafeLine(word), terminal.SafeLine(s.Description)
			if inWords {
				p.description = strings.TrimSpace(p.description + " (" + terminal.SafeLine(strings.Join(s.choices(), ", ")) + ")")
			}
			if len(s.Default) > 0 {
				p.description = strings.TrimSpace(p.description + " (default " + terminal.SafeLine(oneLine(s.Default)) + ")")
			}
		}
		rows = append(rows, p)
	}
	return rows
}

// property is what a schema says of one parameter.
type property struct {
	Type        jsontext.Value   `json:"type"`
	Description string           `json:"description"`
	Enum        []jsontext.Value `json:"enum"`
	Default     jsontext.Value   `json:"default"`
	Items       jsontext.Value   `json:"items"`
}

// choices are the values of an enum, or of the enum of an array's items.
func (p property) choices() []string {
	var values []string
	for _, v := range p.Enum {
		values = append(values, plainScalar(v))
	}
	var item property
	if values == nil && len(p.Items) > 0 && decode(p.Items, &item) == nil {
		return item.choices()
	}
	return values
}

// kind is the type in a word, for example "string", "integer[]" or "asc|desc".
// An enum too wide for its column is only its type, and inWords says so.
func (p property) kind() (word string, inWords bool) {
	if word = strings.Join(p.choices(), "|"); len(p.Enum) > 0 && terminal.Cells(word) <= maxColumn {
		return word, false
	}
	inWords = len(p.Enum) > 0
	var types []string
	switch {
	case p.Type.Kind() == '"':
		types = []string{plainScalar(p.Type)}
	case p.Type == nil && len(p.Enum) > 0:
		types = []string{"enum"}
	case p.Type == nil || decode(p.Type, &types) != nil || len(types) == 0:
		return "any", inWords
	}
	for i, t := range types {
		var item property
		if t == "array" && len(p.Items) > 0 && decode(p.Items, &item) == nil {
			of, long := item.kind()
			types[i], inWords = of+"[]", long
		}
	}
	return strings.Join(types, "|"), inWords
}

// plainScalar is a string without quotes, or other JSON as it is.
func plainScalar(v jsontext.Value) string {
	if v.Kind() == '"' {
		if text, err := jsontext.AppendUnquote(nil, v); err == nil {
			return string(text)
		}
	}
	return oneLine(v)
}

// maxColumn keeps one long name or type from pushing all else aside.
const maxColumn = 24

// writeParameters writes aligned rows: name, type, description.
func writeParameters(b *strings.Builder, rows []parameter, limit int, s terminal.Style) {
	nameWidth, kindWidth := 0, 0
	for _, p := range rows {
		nameWidth = max(nameWidth, min(terminal.Cells(p.name)+1, maxColumn))
		kindWidth = max(kindWidth, min(terminal.Cells(p.kind), maxColumn))
	}
	for _, p := range rows {
		name, mark := terminal.Clip(p.name, maxColumn-1), ""
		if p.required {
			mark = "*"
		}
		kind := terminal.Clip(p.kind, maxColumn)
		if p.kind != kind { // cut short: all of it stands before the description
			p.description = strings.TrimSpace(p.kind + ". " + p.description)
		}
		line := "    " + name + s.Red(mark) + pad(name+mark, nameWidth) + "  " + s.Dim(kind)
		indent := 4 + nameWidth + 2 + kindWidth + 2
		if p.description == "" {
			fmt.Fprintln(b, strings.TrimRight(line, " "))
			continue
		}
		line += pad(kind, kindWidth) + "  "
		if limit-indent < 20 { // too narrow for a third column
			fmt.Fprintln(b, strings.TrimRight(line, " "))
			line, indent = strings.Repeat(" ", 8), 8
		}
		for i, part := range terminal.Wrap(p.description, limit-indent) {
			if i > 0 {
				line = strings.Repeat(" ", indent)
			}
			fmt.Fprintln(b, line+part)
		}
	}
}

// pad is the space that fills a column after a text.
func pad(text string, columnWidth int) string {
	return strings.Repeat(" ", max(columnWidth-terminal.Cells(text), 0))
}
