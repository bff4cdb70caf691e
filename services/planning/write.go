package planning

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
)

//go:embed schema/writePlan.input.json
var writeInput []byte

// WriteIn holds the arguments of writePlan.
type WriteIn struct {
	GenerateIn
	URI     string `json:"uri"`
	Format  string `json:"format,omitzero"`
	Replace bool   `json:"replace,omitzero"`
}

// WriteOut is the result of writePlan: the plan and its URI.
type WriteOut struct {
	GenerateOut
	URI      string `json:"uri"`
	MIMEType string `json:"mimeType"`
	Revision int64  `json:"revision"`
}

// write makes a plan and writes it through the resource service, on behalf of the caller.
func write(ctx context.Context, call *service.Call, in WriteIn) (*service.Result, error) {
	plan, err := generate(ctx, call, in.GenerateIn)
	if err != nil {
		return nil, err
	}
	title := firstLine(in.Task)
	arguments := map[string]any{"uri": in.URI, "title": title, "mimeType": "text/markdown", "text": markdown(title, plan)}
	if in.Format == "json" {
		text, err := json.Marshal(plan, json.Deterministic(true), jsontext.WithIndent("  "))
		if err != nil {
			return nil, err
		}
		arguments["mimeType"], arguments["text"] = "application/json", string(text)
	}
	out := WriteOut{GenerateOut: plan, URI: in.URI, MIMEType: arguments["mimeType"].(string)}
	if out.Revision, err = store(ctx, call, "create_resource", arguments); fault.Is(err, fault.Conflict) {
		if !in.Replace {
			return nil, service.Errorf("%s already exists; nothing was written; give another uri, or replace: true", in.URI)
		}
		out.Revision, err = store(ctx, call, "update_resource", arguments)
	}
	if err != nil {
		return nil, err
	}
	return &service.Result{
		Content: []mcp.Content{
			mcp.Text(fmt.Sprintf("A plan of %d steps in %d phases is in %s.", len(plan.Plan), len(plan.Phases), in.URI)),
			mcp.Link(mcp.Resource{URI: in.URI, Name: title, MIMEType: out.MIMEType}),
		},
		Structured: out,
	}, nil
}

// store calls a tool of the resource service and returns the revision it wrote.
func store(ctx context.Context, call *service.Call, tool string, arguments any) (int64, error) {
	key := call.IdempotencyKey()
	if key != "" {
		key = tool + " " + key
	}
	r, err := call.CallTool(ctx, service.ToolCall{Name: tool, Arguments: arguments, IdempotencyKey: key})
	switch {
	case fault.Is(err, fault.UnknownTool):
		return 0, service.Errorf("the plan cannot be written, because no resource service is running; use generatePlan to make it without writing it")
	case fault.Is(err, fault.InvalidParams):
		return 0, service.Errorf("the plan was not written: %s", fault.From(err).Message)
	case err != nil:
		return 0, err
	case r.IsError:
		return 0, service.Errorf("the plan was not written: %s", r.Text())
	}
	var entry struct {
		Revision int64 `json:"revision"`
	}
	if err := json.Unmarshal(r.Structured, &entry); err != nil {
		return 0, fault.New(fault.Internal, "the answer of %s is not valid", tool).Ran(fault.Yes).Because(err)
	}
	return entry.Revision, nil
}

// markdown writes a plan as a checklist. It contains only words of the plan, in the plan's
// language.
func markdown(title string, p GenerateOut) string {
	b := &strings.Builder{}
	fmt.Fprintf(b, "# %s\n", title)
	steps := map[int]Step{}
	for _, s := range p.Plan {
		steps[s.ID] = s
	}
	for _, phase := range p.Phases {
		fmt.Fprintf(b, "\n## %d. %s\n\n", phase.ID, phase.Name)
		for _, id := range phase.Steps {
			s := steps[id]
			fmt.Fprintf(b, "- [ ] **%d.** %s", s.ID, s.Description)
			if len(s.DependsOn) > 0 {
				fmt.Fprintf(b, " (← %s)", strings.Trim(strings.ReplaceAll(fmt.Sprint(s.DependsOn), " ", ", "), "[]"))
			}
			if len(s.Covers) > 0 {
				fmt.Fprintf(b, " `%s`", strings.Join(s.Covers, "` `"))
			}
			if s.Check != "" {
				fmt.Fprintf(b, "\n  ✓ %s", s.Check)
			}
			b.WriteString("\n")
		}
	}
	if len(p.Requirements) > 0 {
		b.WriteString("\n---\n\n")
		for _, r := range p.Requirements {
			fmt.Fprintf(b, "- `%s` %s\n", r.ID, r.Text)
		}
	}
	return b.String()
}

// firstLine returns the title of a plan, at most 100 runes.
func firstLine(task string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(task), "\n")
	line = strings.TrimSpace(strings.TrimLeft(line, "#-* "))
	if utf8.RuneCountInString(line) > 100 {
		line = string([]rune(line)[:99]) + "…"
	}
	return line
}
