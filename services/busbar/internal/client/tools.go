package client

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	"github.com/busbar-mcp/busbar/services/busbar/internal/terminal"
)

// ToolsOptions are the options of `busbar tools`.
type ToolsOptions struct {
	Options
	// Name of the tool of which everything is shown; empty to list all.
	Name string
	// Service is the one whose tools are listed; empty for all.
	Service string
}

// origin is where a tool comes from: MCP has no words for it.
type origin struct {
	Name     string `json:"name"`
	Service  string `json:"service"`
	Version  string `json:"version"`
	Approval bool   `json:"requires_user_approval"`
}

// origins asks the edge whose tools its tools are.
func (c *Client) origins(ctx context.Context) (map[string]origin, error) {
	found := map[string]origin{}
	for cursor := ""; ; {
		r, err := c.operation(ctx, "listTools", nil)
		if err != nil {
			return nil, err
		}
		if cursor != "" {
			r.URL.RawQuery = url.Values{"cursor": {cursor}}.Encode()
		}
		raw, err := c.ask(ctx, "", r)
		if err != nil {
			return nil, err
		}
		var page struct {
			Tools []origin `json:"tools"`
			Next  string   `json:"next_cursor"`
		}
		if err := decode(raw, &page); err != nil {
			return nil, &ProtocolError{Message: "the list of tools is malformed", Err: err}
		}
		before := len(found)
		for _, t := range page.Tools {
			found[t.Name] = t
		}
		if cursor = page.Next; cursor == "" || len(found) == before {
			return found, nil
		}
	}
}

// RunTools is `busbar tools`: it lists the tools of an edge, or shows all of one, and
// returns the exit code.
func RunTools(ctx context.Context, o ToolsOptions, stdout, stderr io.Writer) int {
	r := newRun(o.Options, stdout, stderr)
	ctx, stop := r.within(ctx)
	defer stop()
	tools, err := r.edge.Tools(ctx)
	if err != nil {
		return r.fail(err, "")
	}
	of := map[string]origin{}
	if o.Service != "" || !o.JSON && (o.Terminal || o.Name != "") {
		// Behind a proxy that passes MCP alone there is no answer, and no groups.
		if of, err = r.edge.origins(ctx); err != nil && o.Service != "" {
			return r.fail(err, "")
		}
	}
	if o.Service != "" {
		if tools = slices.DeleteFunc(tools, func(t Tool) bool { return of[t.Name].Service != o.Service }); len(tools) == 0 {
			return r.fail(&UsageError{Message: fmt.Sprintf("no tools of a service %q; there are %s", o.Service, strings.Join(services(of), ", "))}, "")
		}
	}
	if l, err := r.edge.listedOnce(ctx); err == nil && o.Name != "" && l.find(o.Name) == nil {
		if t := r.edge.describe(ctx, l, o.Name); t != nil {
			tools = append(tools, *t)
		}
	}
	limit := terminal.Columns(o.Width, r.getenv)
	switch {
	case o.Name != "":
		return r.showTool(o, tools, of, limit)
	case o.JSON && o.Terminal:
		return r.print(terminal.SafeJSON(toolsJSON(tools)), ExitOK)
	case o.JSON:
		return r.print(toolsJSON(tools), ExitOK)
	case len(tools) == 0:
		fmt.Fprintf(stderr, "%s offers no tools\n", terminal.SafeLine(r.edge.shownURL()))
		return ExitOK
	case o.Terminal:
		return r.print(toolsOverview(tools, of, limit, r.style), ExitOK)
	}
	return r.print(toolsPlain(tools), ExitOK)
}

func (r *run) showTool(o ToolsOptions, tools []Tool, of map[string]origin, limit int) int {
	i := slices.IndexFunc(tools, func(t Tool) bool { return t.Name == o.Name })
	if i < 0 {
		message := fmt.Sprintf("there is no tool %q", o.Name)
		if near := nearest(o.Name, toolNames(tools)); len(near) > 0 {
			message += "; did you mean " + strings.Join(near, ", ") + "?"
		} else {
			message += "; " + seeTools
		}
		fmt.Fprintln(r.stderr, r.errStyle.Red("error: ")+terminal.SafeText(message))
		return ExitRefused
	}
	if o.JSON {
		return r.printRaw(tools[i].Raw, o.Options, ExitOK)
	}
	return r.print(toolDetails(tools[i], of[o.Name], limit, r.style), ExitOK)
}

func toolNames(tools []Tool) []string {
	names := make([]string, len(tools))
	for i, t := range tools {
		names[i] = t.Name
	}
	return names
}

// services are those that tools are of, by name.
func services(of map[string]origin) (names []string) {
	for _, o := range of {
		names = append(names, o.Service)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// ToolNames are the tools of an edge; none if it does not say.
func ToolNames(ctx context.Context, o Options) []string {
	tools, err := newRun(o, io.Discard, io.Discard).edge.Tools(ctx)
	if err != nil {
		return nil
	}
	return toolNames(tools)
}
