package gateway

import (
	"bytes"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/schema"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
	"github.com/busbar-mcp/busbar/services/edge/search"
)

// Tools of the edge itself, which replace a list of tools. A service that has a tool of such a
// name keeps it.
const (
	SearchTools   = "search_tools"
	DescribeTools = "describe_tools"
)

// Bounds of the answers of the two tools.
const (
	//limit:message@maxFound tools in one answer of `search_tools`
	defaultFound, maxFound = 5, 10
	//limit:message tools that one call of `describe_tools` names | `invalid_params`
	maxDescribed  = 10
	maxFoundBytes = 2<<10 - 128 // with the rest of the result, 2 KiB
	//limit:message an answer of `describe_tools`, unless one tool is longer | the rest is left out
	maxDescribedBytes = 64 << 10
	maxSaid           = 160 // of one description
)

// StandIns is the list of tools that replaces a longer one: its entries, as members of a result.
var StandIns = []byte(`"tools":[` + describeEntry + "," + searchEntry + `]`)

const (
	searchSchema = `{"type":"object","properties":{"query":{"type":"string","minLength":1,"maxLength":512,"description":"The task, in a few words of any language, such as: send an invoice"},` +
		`"limit":{"type":"integer","minimum":1,"maximum":10,"description":"How many tools to name; 5 if left out"}},"required":["query"],"additionalProperties":false}`
	searchEntry = `{"name":"search_tools","title":"Search tools","description":"Finds tools by what they do. There are more tools than are listed: search, look at one with describe_tools, then call it by its name.",` +
		`"inputSchema":` + searchSchema + `,"annotations":{"readOnlyHint":true,"openWorldHint":false}}`
	describeSchema = `{"type":"object","properties":{"names":{"type":"array","items":{"type":"string","maxLength":256},"minItems":1,"maxItems":10,"description":"Names of tools, as search_tools gives them"}},"required":["names"],"additionalProperties":false}`
	describeEntry  = `{"name":"describe_tools","title":"Describe tools","description":"Says of tools all that a call needs: what they do and the schema of their arguments.",` +
		`"inputSchema":` + describeSchema + `,"annotations":{"readOnlyHint":true,"openWorldHint":false}}`
)

// ownTools are the two tools as the chain knows tools.
var ownTools = sync.OnceValue(func() map[string]*catalogue.Tool {
	all := map[string]*catalogue.Tool{}
	for name, text := range map[string]string{SearchTools: searchSchema, DescribeTools: describeSchema} {
		s, err := schema.CompileInput([]byte(text))
		if err != nil {
			panic(err) // a text above is wrong
		}
		all[name] = &catalogue.Tool{Schema: s, ReadOnly: true, Idempotent: true}
	}
	return all
})

// own is the target of one of the edge's tools.
func own(name string) (catalogue.Target, bool) {
	t := ownTools()[name]
	return catalogue.Target{Tool: t}, t != nil
}

// isOwn reports whether the call reaches one of the edge's tools.
func (v *View) isOwn() bool { return v.Target.Tool != nil && v.Target.Service == "" }

// few reports whether two tools replace the list of tools for the holder of the credentials:
// either the client asks for that, or the list is longer than this edge shows.
func (g *Gateway) few(now *catalogue.Snapshot, c *Credentials) bool {
	return c.Search || g.cfg.ListTools > 0 && now.Count(catalogue.Tools) > g.cfg.ListTools
}

// finder is the index of the tools of one catalogue.
type finder struct {
	index search.Index
	mu    sync.Mutex
	of    atomic.Pointer[catalogue.Snapshot]
}

// at returns the index of a catalogue. While another call updates it, the index is still for the
// catalogue before; calls wait only for the very first index.
func (f *finder) at(now *catalogue.Snapshot) *search.Index {
	switch of := f.of.Load(); {
	case of == now:
		return &f.index
	case of == nil:
		f.mu.Lock()
	case !f.mu.TryLock():
		return &f.index
	}
	defer f.mu.Unlock()
	if f.of.Load() != now {
		f.index.Update(now.Tools())
		f.of.Store(now)
	}
	return &f.index
}

// search answers one of the edge's tools, using only the tools that its caller may use.
func (r *run) search(cfg *Config) (*Answer, error) {
	now := cfg.Catalogue.Now()
	sees := now.For(cfg.view(r.Principal, &r.Credentials))
	var in struct {
		Query string   `json:"query"`
		Limit float64  `json:"limit"` // 5.0 is an integer to the schema
		Names []string `json:"names"`
	}
	if err := json.Unmarshal(r.Arguments, &in); err != nil {
		return nil, fault.From(err)
	}
	if r.Name == SearchTools {
		if in.Limit == 0 {
			in.Limit = defaultFound
		}
		return textAnswer(found(cfg.finder.at(now), sees, in.Query, min(int(in.Limit), maxFound)))
	}
	return textAnswer(described(sees, in.Names))
}

// found names the tools that match a query.
func found(index *search.Index, sees *catalogue.Snapshot, query string, limit int) string {
	var b strings.Builder
	more := 0
	for _, name := range index.Search(query, limit, func(name string) bool { return len(sees.ToolsOf(name)) > 0 }) {
		for _, t := range sees.ToolsOf(name) {
			line := t.Name + ": " + about(t.Entry) + "\n"
			if more++; more <= limit && len(quote(b.String()+line)) <= maxFoundBytes {
				b.WriteString(line)
			}
		}
	}
	if b.Len() == 0 {
		return "No tool fits. Say it in other words: what is done, to what, and where."
	}
	return b.String()
}

// about is the beginning of a tool's own description, on one line.
func about(entry []byte) string {
	var said struct {
		Title       string `json:"title"`
		Description string `json:"description"`
	}
	_ = json.Unmarshal(entry, &said) // a tool without a description has its name
	text := strings.Join(strings.Fields(said.Description), " ")
	if text == "" {
		text = said.Title
	}
	if len(text) <= maxSaid {
		return text
	}
	end := maxSaid
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

// described are the entries of tools, one per line.
func described(sees *catalogue.Snapshot, names []string) string {
	var b bytes.Buffer
	for _, name := range names[:min(len(names), maxDescribed)] {
		entry, ok := sees.Entry(catalogue.Tools, name)
		if own := map[string]string{SearchTools: searchEntry, DescribeTools: describeEntry}[name]; !ok && own != "" {
			entry, ok = []byte(own), true
		}
		switch {
		case !ok:
			b.WriteString("Unknown tool: " + fault.Clip(name))
		case b.Len()+len(entry) > maxDescribedBytes && b.Len() > 0:
			b.WriteString(fault.Clip(name) + " is not shown: the answer would be too long; ask for it alone")
		default:
			b.Write(entry)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func textAnswer(text string) (*Answer, error) {
	result, err := json.Marshal(map[string]any{"content": []mcp.Content{mcp.Text(text)}}, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	return &Answer{Result: &busv1.Result{Json: result}}, err
}
