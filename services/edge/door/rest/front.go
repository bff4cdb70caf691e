package rest

import (
	"bytes"
	"context"
	_ "embed"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/api"
	"github.com/busbar-mcp/busbar/services/edge/door"
)

//go:embed front.html
var frontPage string

var (
	frontTemplate = template.Must(template.New("front").Parse(frontPage))
	frontPolicy   = door.PagePolicy(frontPage)
)

// front is the content of the page at /: what this is, who the caller is, where the doors
// are, and what is offered to the caller.
type front struct {
	Name      string      `json:"name"`
	Version   string      `json:"version"`
	Principal string      `json:"principal"`
	Tenant    string      `json:"tenant,omitzero"`
	Doors     []frontDoor `json:"doors"`
	Offers    []offer     `json:"offers"`
}

// frontDoor is a door. Link is set if a browser gets something there.
type frontDoor struct {
	Path string `json:"path"`
	What string `json:"what"`
	Link bool   `json:"-"`
}

// doors are the doors that every edge has on its HTTP listener.
var doors = []frontDoor{
	{"/mcp", "MCP over Streamable HTTP, up to 2026-07-28", false},
	{"/sse", "MCP over HTTP with SSE, for clients of 2024-11-05", false},
	{"/ws", "MCP over WebSocket, or messages of one's own", false},
	{"/tools", "plain HTTP, with /resources, /prompts and /sampling", true},
	{"/docs", "try the tools in a browser", true},
	{"/openapi.json", "plain HTTP as OpenAPI 3.1, with a path for each tool", true},
	{"/llms.txt", "what is here, for models", true},
	{"/graphql", "GraphQL, with a page to try it", true},
	{"/v1", "the “1.0” envelope", false},
	{"/healthz", "whether this process runs; /readyz says whether it can serve", true},
}

// offer is one list of what services offer, as far as it fits on a page.
type offer struct {
	Kind    string    `json:"kind"`
	Entries []offered `json:"entries"`
	// More is set if there are more, at the path of the kind.
	More bool `json:"more,omitzero"`
	// Failed is why there is no list.
	Failed string `json:"failed,omitzero"`
}

type offered struct {
	// Name is the key with which to ask for it: a name, or the URI of a resource.
	Name  string `json:"name"`
	About string `json:"about,omitzero"`
	Path  string `json:"path"`
}

// Bounds of the page: entries of a list, and characters of text for each.
const maxOffered, maxAbout = 100, 200

// front answers /: with a page, or with the same as JSON for clients that prefer JSON.
func (h *Handler) front(w http.ResponseWriter, r *http.Request, who api.Caller, _ string) error {
	me, err := h.cfg.API.Me(r.Context(), who, api.None{})
	if err != nil {
		return err
	}
	f := front{Name: "busbar", Version: h.cfg.Version, Principal: me.Principal, Tenant: me.Tenant, Doors: doors}
	if f.Offers, err = h.offers(r.Context(), who, maxOffered); err != nil {
		return err
	}
	w.Header().Add("Vary", "Accept")
	w.Header().Set("Cache-Control", "no-store")
	if prefersJSON(r.Header) {
		b, err := json.Marshal(f, json.Deterministic(true))
		if err != nil {
			return err
		}
		door.Answer(w, http.StatusOK, "application/json", b)
		return nil
	}
	var page bytes.Buffer
	if err := frontTemplate.Execute(&page, f); err != nil {
		return err
	}
	door.Page(w, frontPolicy, page.Bytes())
	return nil
}

// offers are the lists of what is offered to a caller, with up to limit entries each.
func (h *Handler) offers(ctx context.Context, who api.Caller, limit int) ([]offer, error) {
	page := api.Page{Limit: limit}
	tools, err := h.cfg.API.Tools(ctx, who, page)
	if err != nil {
		return nil, err
	}
	own := offer{Kind: tools.Member, Entries: []offered{}, More: tools.Next != ""}
	for _, t := range tools.Entries {
		own.Entries = append(own.Entries, offered{t.Name, about(t.Title, t.Description), "/tools/" + url.PathEscape(t.Name)})
	}
	resources, failed := h.cfg.API.Resources(ctx, who, page)
	prompts, failedToo := h.cfg.API.Prompts(ctx, who, page)
	return []offer{own, offerOf(resources, failed), offerOf(prompts, failedToo)}, nil
}

func offerOf(all api.List[jsontext.Value], err error) offer {
	o := offer{Kind: all.Member, Entries: []offered{}, More: all.Next != ""}
	if err != nil {
		o.Failed = fault.From(err).Message
		return o
	}
	for _, e := range all.Entries {
		var is struct {
			URI         string `json:"uri"`
			Name        string `json:"name"`
			Title       string `json:"title"`
			Description string `json:"description"`
		}
		if json.Unmarshal(e, &is) != nil {
			continue // the service wrote this entry in its own form; /resources shows it unchanged
		}
		name, title := is.Name, is.Title
		if is.URI != "" {
			if title == "" {
				title = is.Name
			}
			name = is.URI
		}
		o.Entries = append(o.Entries, offered{name, about(title, is.Description), "/" + all.Member + "/" + url.PathEscape(name)})
	}
	return o
}

// about is the text about an offer, on one line and cut.
func about(title, description string) string {
	text := strings.Join(strings.Fields(description), " ")
	if text == "" {
		text = title
	}
	if utf8.RuneCountInString(text) > maxAbout {
		text = string([]rune(text)[:maxAbout]) + "…"
	}
	return text
}

// prefersJSON reports whether a request prefers JSON to a page.
func prefersJSON(h http.Header) bool {
	var asJSON, asPage float64
	for _, line := range h["Accept"] {
		for part := range strings.SplitSeq(line, ",") {
			media, parameters, _ := strings.Cut(part, ";")
			q := 1.0
			for p := range strings.SplitSeq(parameters, ";") {
				if value, ok := strings.CutPrefix(strings.TrimSpace(p), "q="); ok {
					if v, err := strconv.ParseFloat(value, 64); err == nil {
						q = v
					}
				}
			}
			switch strings.ToLower(strings.TrimSpace(media)) {
			case "application/json":
				asJSON = q
			case "text/html":
				asPage = q
			}
		}
	}
	return asJSON > asPage
}
