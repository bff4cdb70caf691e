package client

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/busbar/internal/terminal"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// offered is an entry of a list of resources, templates or prompts.
type offered struct {
	URI         string `json:"uri"`
	Template    string `json:"uriTemplate"`
	Name        string `json:"name"`
	Title       string `json:"title"`
	Description string `json:"description"`
	MIMEType    string `json:"mimeType"`
	Arguments   []struct {
		Name        string `json:"name"`
		Description string `json:"description"`
		Required    bool   `json:"required"`
	} `json:"arguments"`
	raw jsontext.Value
}

// is what an entry is asked for by.
func (e *offered) is() string { return cmp.Or(e.URI, e.Template, e.Name) }

// about is what is known of an entry, on a line.
func (e *offered) about() string {
	var names []string
	for _, a := range e.Arguments {
		name := a.Name + "=…"
		if !a.Required {
			name = "[" + name + "]"
		}
		names = append(names, name)
	}
	text := terminal.SafeLine(cmp.Or(e.Description, e.Title))
	if e.Name != "" && e.Name != e.is() && text == "" {
		text = terminal.SafeLine(e.Name)
	}
	if e.MIMEType != "" {
		text = strings.TrimSpace(text + " (" + terminal.SafeLine(e.MIMEType) + ")")
	}
	if len(names) > 0 {
		text = strings.TrimSpace(terminal.SafeLine(strings.Join(names, " ")) + "  " + text)
	}
	return text
}

// entries lists what an edge offers of some kinds.
func (r *run) entries(ctx context.Context, kinds ...[2]string) (all []offered, err error) {
	ctx, stop := r.within(ctx)
	defer stop()
	for _, k := range kinds {
		err := r.edge.each(ctx, k[0], k[1], func(raw jsontext.Value) error {
			e := offered{raw: raw}
			if err := decode(raw, &e); err != nil || e.is() == "" {
				return &ProtocolError{Method: k[0], Message: "an entry of the list is malformed", Err: err}
			}
			all = append(all, e)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// RunResources is `busbar resources`: it lists resources and templates.
func RunResources(ctx context.Context, o Options, stdout, stderr io.Writer) int {
	return runOffers(ctx, o, "resources", stdout, stderr, [2]string{mcp.MethodResourcesList, "resources"}, [2]string{mcp.MethodTemplatesList, "resourceTemplates"})
}

// RunPrompts is `busbar prompts`: it lists prompts.
func RunPrompts(ctx context.Context, o Options, stdout, stderr io.Writer) int {
	return runOffers(ctx, o, "prompts", stdout, stderr, [2]string{mcp.MethodPromptsList, "prompts"})
}

func runOffers(ctx context.Context, o Options, what string, stdout, stderr io.Writer, kinds ...[2]string) int {
	r := newRun(o, stdout, stderr)
	all, err := r.entries(ctx, kinds...)
	if err != nil {
		return r.fail(err, "")
	}
	if o.JSON {
		raw := make([]jsontext.Value, len(all))
		for i, e := range all {
			raw[i] = e.raw
		}
		b, err := json.Marshal(raw)
		if err != nil {
			return r.fail(err, "")
		}
		return r.printRaw(b, o, ExitOK)
	}
	if len(all) == 0 {
		fmt.Fprintf(stderr, "%s offers no %s\n", terminal.SafeLine(r.edge.shownURL()), what)
		return ExitOK
	}
	rows := make([]row, len(all))
	for i, e := range all {
		rows[i] = row{terminal.SafeLine(e.is()), e.about()}
	}
	if !o.Terminal {
		return r.print(plainRows(rows), ExitOK)
	}
	return r.print(tableRows(rows, terminal.Columns(o.Width, r.getenv), "", r.style), ExitOK)
}

// row is a name and what is said of it, both safe to show.
type row struct{ name, about string }

// plainRows is a line for each row: name, tab, what is said.
func plainRows(rows []row) string {
	var b strings.Builder
	for _, l := range rows {
		b.WriteString(l.name + "\t" + l.about + "\n")
	}
	return b.String()
}

// tableRows is a line of a terminal for each row; what does not fit is cut.
func tableRows(rows []row, limit int, indent string, s terminal.Style) string {
	nameWidth := 0
	for _, l := range rows {
		nameWidth = max(nameWidth, min(terminal.Cells(l.name), limit/2))
	}
	var b strings.Builder
	for _, l := range rows {
		line := indent + s.Bold(l.name)
		if room := limit - len(indent) - max(nameWidth, terminal.Cells(l.name)) - 2; room > 10 && l.about != "" {
			line += pad(l.name, nameWidth) + "  " + terminal.Clip(l.about, room)
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

// ReadOptions are the options of `busbar read`.
type ReadOptions struct {
	Options
	URI string
}

// RunRead is `busbar read`: it prints a resource, bytes as they are unless stdout is a
// terminal.
func RunRead(ctx context.Context, o ReadOptions, stdin io.Reader, stdout, stderr io.Writer) int {
	r := newRun(o.Options, stdout, stderr)
	raw, code := r.asked(ctx, request{method: mcp.MethodResourcesRead, params: params{URI: o.URI}}, &person{run: r, in: stdin}, o.Options)
	if raw == nil {
		return code
	}
	var res struct {
		Contents []struct {
			URI      string  `json:"uri"`
			MIMEType string  `json:"mimeType"`
			Text     *string `json:"text"`
			Blob     string  `json:"blob"`
		} `json:"contents"`
	}
	if err := decode(raw, &res); err != nil {
		return r.fail(&ProtocolError{Method: mcp.MethodResourcesRead, Message: "the resource is malformed", Err: err}, "")
	}
	var b strings.Builder
	for _, c := range res.Contents {
		if len(res.Contents) > 1 && o.Terminal {
			b.WriteString(note("resource %s", mimed(c.URI, c.MIMEType)) + "\n")
		}
		switch {
		case c.Text != nil && o.Terminal:
			b.WriteString(strings.TrimSuffix(terminal.SafeText(*c.Text), "\n") + "\n")
		case c.Text != nil:
			b.WriteString(*c.Text)
		case o.Terminal:
			b.WriteString(note("%s, %s; write it to a file with >", mimed(c.URI, c.MIMEType), byteSize(base64Size(c.Blob))) + "\n")
		default:
			bytes, err := base64.StdEncoding.DecodeString(c.Blob)
			if err != nil {
				return r.fail(&ProtocolError{Method: mcp.MethodResourcesRead, Message: "the resource is not Base64", Err: err}, "")
			}
			b.Write(bytes)
		}
	}
	return r.print(b.String(), ExitOK)
}

// asked makes a request through all questions of the server. A result that is printed
// as JSON already, or none, is nil with the exit code.
func (r *run) asked(ctx context.Context, q request, who *person, o Options) (jsontext.Value, int) {
	q.asks = r.asks
	for range maxRounds {
		asking, stop := r.within(ctx)
		raw, err := r.edge.do(asking, q)
		stop()
		r.line.clear()
		if err == nil && resultType(raw) == typeInputRequired {
			var res *Result
			if res, err = decodeResult(raw); err == nil && !who.canAnswer(res.InputRequests) {
				return nil, r.show(res, "", o)
			}
			if err == nil {
				q.params.RequestState = res.RequestState
				q.params.InputResponses, err = who.answer(ctx, res.InputRequests)
			}
			if err == nil {
				continue
			}
		}
		switch {
		case err != nil:
			return nil, r.fail(err, "")
		case o.JSON:
			return nil, r.printRaw(raw, o, ExitOK)
		}
		return raw, ExitOK
	}
	return nil, r.fail(&ProtocolError{Method: q.method, Message: fmt.Sprintf("it asked %d times", maxRounds)}, "")
}

// PromptOptions are the options of `busbar prompt`.
type PromptOptions struct {
	Options
	Name string
	// Arguments are texts of the form name=value, or one JSON object.
	Arguments []string
}

// RunPrompt is `busbar prompt`: it fills a prompt in and prints its messages.
func RunPrompt(ctx context.Context, o PromptOptions, stdin io.Reader, stdout, stderr io.Writer) int {
	r := newRun(o.Options, stdout, stderr)
	// Arguments of a prompt are texts, whatever their names.
	read := func(file string) ([]byte, error) { return readSource(ctx, file, stdin) }
	var arguments jsontext.Value
	var err error
	if len(o.Arguments) == 1 && strings.HasPrefix(strings.TrimSpace(o.Arguments[0]), "{") {
		arguments, err = checkArguments([]byte(o.Arguments[0]))
	} else {
		arguments, err = assign(jsontext.Value(`{"additionalProperties":{"type":"string"}}`), o.Arguments, read)
	}
	if err != nil {
		return r.fail(err, "")
	}
	raw, code := r.asked(ctx, request{method: mcp.MethodPromptsGet, params: params{Name: o.Name, Arguments: arguments}}, &person{run: r, in: stdin}, o.Options)
	if raw == nil {
		return code
	}
	var res struct {
		Messages []struct {
			Role    string         `json:"role"`
			Content jsontext.Value `json:"content"`
		} `json:"messages"`
	}
	if err := decode(raw, &res); err != nil {
		return r.fail(&ProtocolError{Method: mcp.MethodPromptsGet, Message: "the prompt is malformed", Err: err}, "")
	}
	var b strings.Builder
	for _, m := range res.Messages {
		contents := m.Content
		if contents.Kind() != '[' {
			contents = slices.Concat(jsontext.Value("["), contents, jsontext.Value("]"))
		}
		said := &Result{}
		if err := decode(contents, &said.Content); err != nil {
			return r.fail(&ProtocolError{Method: mcp.MethodPromptsGet, Message: "a message of the prompt is malformed", Err: err}, "")
		}
		b.WriteString(r.style.Dim(terminal.SafeLine(m.Role)+":") + "\n" + resultText(said, o.Terminal))
	}
	return r.print(b.String(), ExitOK)
}

// CompleteOptions are the options of `busbar complete`.
type CompleteOptions struct {
	Options
	// Of is the name of a prompt, or the template of a resource's URI.
	Of, Argument, Typed string
}

// RunComplete is `busbar complete`: it prints what a service suggests for an argument,
// one on a line.
func RunComplete(ctx context.Context, o CompleteOptions, stdout, stderr io.Writer) int {
	r := newRun(o.Options, stdout, stderr)
	ctx, stop := r.within(ctx)
	defer stop()
	ref := map[string]string{"type": "ref/prompt", "name": o.Of}
	if strings.Contains(o.Of, "{") || strings.Contains(o.Of, "://") {
		ref = map[string]string{"type": "ref/resource", "uri": o.Of}
	}
	raw, err := r.edge.do(ctx, request{method: mcp.MethodComplete, params: params{Ref: ref, Argument: map[string]string{"name": o.Argument, "value": o.Typed}}})
	switch {
	case err != nil:
		return r.fail(err, "")
	case o.JSON:
		return r.printRaw(raw, o.Options, ExitOK)
	}
	var res struct {
		Completion struct {
			Values []string `json:"values"`
			More   bool     `json:"hasMore"`
		} `json:"completion"`
	}
	if err := decode(raw, &res); err != nil {
		return r.fail(&ProtocolError{Method: mcp.MethodComplete, Message: "the suggestions are malformed", Err: err}, "")
	}
	var b strings.Builder
	for _, v := range res.Completion.Values {
		b.WriteString(terminal.SafeLine(v) + "\n")
	}
	switch {
	case len(res.Completion.Values) == 0:
		fmt.Fprintf(stderr, "no suggestions for argument %s of %s\n", terminal.SafeLine(o.Argument), terminal.SafeLine(o.Of))
	case res.Completion.More:
		fmt.Fprintln(stderr, "there are more suggestions; give more of the value")
	}
	return r.print(b.String(), ExitOK)
}
