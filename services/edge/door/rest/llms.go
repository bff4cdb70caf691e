package rest

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/busbar-mcp/busbar/services/edge/api"
	"github.com/busbar-mcp/busbar/services/edge/door"
)

// maxListed bounds each list of /llms.txt, entries.
const maxListed = 200

// llms describes the edge and its offers to the caller in the form of llms.txt
// (llmstxt.org): a heading, a summary, and lists of links, the last of which may be left
// out. Paths are paths of this edge.
func (h *Handler) llms(w http.ResponseWriter, r *http.Request, who api.Caller, _ string) error {
	offers, err := h.offers(r.Context(), who, maxListed)
	if err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString("# Busbar\n\n> An edge of a bus: tools, resources and prompts of independent services, for clients of the Model Context Protocol and of plain HTTP.\n\n" +
		"A tool is called by POST to its path with its arguments as a JSON object; its page below, read by GET, has their JSON Schema. An answer with status 202 waits for a person: " +
		"`Location` says where to answer. Errors say whether the call ran (`executed`).\n")
	for _, o := range offers {
		fmt.Fprintf(&b, "\n## %s\n\n", strings.ToUpper(o.Kind[:1])+o.Kind[1:])
		for _, e := range o.Entries {
			fmt.Fprintf(&b, "- [%s](%s)", linkText(e.Name), e.Path)
			if e.About != "" {
				b.WriteString(": " + linkText(e.About))
			}
			b.WriteByte('\n')
		}
		if o.More {
			fmt.Fprintf(&b, "- [All %s](/%s): there are more than the %d above\n", o.Kind, o.Kind, len(o.Entries))
		}
		if o.Kind == "tools" {
			b.WriteString("- [The interface of all tools](/openapi.json): OpenAPI 3.1, with a path for each tool\n")
		}
	}
	b.WriteString("\n## Optional\n\n")
	for _, d := range doors {
		fmt.Fprintf(&b, "- [%s](%s): %s\n", d.Path, d.Path, linkText(d.What))
	}
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	door.Answer(w, http.StatusOK, "text/plain; charset=utf-8", []byte(b.String()))
	return nil
}

// linkText is a service's text for Markdown: it cannot begin a link or a line of its own.
func linkText(s string) string {
	return strings.NewReplacer(`\`, `\\`, "\n", " ", "\r", " ", "[", "\\[", "]", "\\]", "<", "\\<", "`", "'").Replace(s)
}
