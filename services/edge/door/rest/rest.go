// Package rest is the door of plain HTTP: tools, resources and prompts as resources of a
// web API, with problem details for errors (RFC 9457). It has the paths and field names
// of the API of version 1.0.0. Start with Handler.ServeHTTP and the tables of routes in
// rest.go.
package rest

import (
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/problem"
	"github.com/busbar-mcp/busbar/services/edge/api"
	"github.com/busbar-mcp/busbar/services/edge/door"
	"github.com/busbar-mcp/busbar/services/edge/forms"
)

// Config configures the door.
type Config struct {
	API   *api.Server
	Guard door.Guard
	// Limits of one body; zero fields mean mcp.DefaultLimits.
	Limits mcp.Limits
	// Version is the version that the page at / shows.
	Version string
}

// Handler serves the paths of Roots and everything below them.
type Handler struct {
	cfg       Config
	documents documents
}

// Roots are the first segments of the paths that Handler serves; the empty one is /.
var Roots = append(slices.Collect(maps.Keys(collections)), toolsets)

// toolsets begins the paths through a toolset: /toolsets/NAME/tools. The paths below it
// are in throughToolset.
const toolsets = "toolsets"

var throughToolset = append(slices.Clone(api.InToolsets), "openapi.json")

// New makes the door.
func New(cfg Config) *Handler {
	if cfg.Limits.Bytes == 0 {
		cfg.Limits.Bytes = mcp.DefaultLimits().Bytes
	}
	return &Handler{cfg: cfg}
}

// handle answers a request of a caller. name is the rest of the path.
type handle func(h *Handler, w http.ResponseWriter, r *http.Request, who api.Caller, name string) error

// route has the handlers of one kind of path, by method.
type route map[string]handle

// Routes of collections and of their members: the documents, and every operation.
var collections, members = routes()

func routes() (collections, members map[string]route) {
	collections = map[string]route{
		"":             {http.MethodGet: (*Handler).front},
		"openapi.json": {http.MethodGet: (*Handler).openAPI},
		"llms.txt":     {http.MethodGet: (*Handler).llms},
		"docs":         {http.MethodGet: (*Handler).docs},
	}
	members = map[string]route{"docs": {http.MethodGet: (*Handler).asset}}
	for _, o := range api.Operations {
		method, path, served := strings.Cut(o.HTTP.Path, " /")
		if !served {
			continue
		}
		all := collections
		root, _, below := strings.Cut(path, "/")
		if below {
			all = members
		}
		if all[root] == nil {
			all[root] = route{}
		}
		all[root][method] = operate(o)
	}
	collections["tools:batch"][http.MethodPost] = (*Handler).batch
	list, read := collections["resources"][http.MethodGet], members["resources"][http.MethodGet]
	collections["resources"][http.MethodGet] = func(h *Handler, w http.ResponseWriter, r *http.Request, who api.Caller, _ string) error {
		if uri := r.URL.Query().Get("uri"); uri != "" { // a URI is awkward in a path
			return read(h, w, r, who, uri)
		}
		return list(h, w, r, who, "")
	}
	return collections, members
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := h.cfg.Guard.Check(r); err != nil {
		door.RefuseProblem(w, err)
		return
	}
	if door.CORS(w, r) {
		return
	}
	// The path as it was sent: a name may contain an escaped slash.
	root, rest, below := strings.Cut(strings.TrimPrefix(r.URL.EscapedPath(), "/"), "/")
	if root == toolsets {
		root, rest, below = through(r, rest)
	}
	name, err := url.PathUnescape(rest)
	known := collections[root]
	if below {
		known = members[root]
	}
	if err != nil || known == nil || below && (name == "" || strings.ContainsRune(name, 0)) {
		door.RefuseProblem(w, problem.Nothing())
		return
	}
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	serve := known[method]
	if serve == nil {
		door.RefuseProblem(w, door.NotAllowed(w, r, allowed(known)...))
		return
	}
	who, err := h.caller(r)
	if err == nil {
		err = serve(h, w, r, who, name)
	}
	if f, ok := err.(*fault.Error); ok {
		err = f.Toward(forms.NextIn(f, forms.HTTP, r.PathValue(door.Toolset)))
	}
	if err != nil {
		door.RefuseProblem(w, err)
	}
}

// through reads the path after /toolsets/: the name of a set, which it keeps with the
// request, and the actual path.
func through(r *http.Request, path string) (root, rest string, below bool) {
	set, path, _ := strings.Cut(path, "/")
	root, rest, below = strings.Cut(path, "/")
	name, err := url.PathUnescape(set)
	if err != nil || name == "" || !slices.Contains(throughToolset, root) {
		return toolsets, "", false // this path does not exist
	}
	r.SetPathValue(door.Toolset, name)
	return root, rest, below
}

func allowed(known route) (methods []string) {
	for _, m := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		if known[m] != nil {
			methods = append(methods, m)
		}
	}
	return methods
}

// caller finds the caller of a request before anything of the request is read.
func (h *Handler) caller(r *http.Request) (api.Caller, error) {
	c, err := door.Caller(h.cfg.API, r, "rest")
	if err != nil {
		return c, err
	}
	keys := r.Header["Idempotency-Key"]
	if len(keys) > 1 {
		return c, fault.New(fault.InvalidRequest, "header Idempotency-Key appears twice")
	}
	if len(keys) == 1 {
		if err := mcp.CheckIdempotencyKey(keys[0]); err != nil {
			return c, err
		}
		c.IdempotencyKey = keys[0]
	}
	return c, nil
}

// body reads a request's body strictly as a JSON object; empty if there is no body.
func (h *Handler) body(w http.ResponseWriter, r *http.Request) (jsontext.Value, error) {
	if r.ContentLength == 0 {
		return nil, nil
	}
	if err := door.CheckContent(r.Header); err != nil {
		return nil, err
	}
	b, err := door.ReadBody(w, r, h.cfg.Limits.Bytes)
	if err != nil || len(b) == 0 {
		return nil, err
	}
	if err := mcp.Valid(b, h.cfg.Limits); err != nil {
		return nil, err
	}
	if jsontext.Value(b).Kind() != '{' {
		return nil, fault.New(fault.InvalidParams, "the body must be a JSON object")
	}
	return b, nil
}

// send answers with a value. The answer to a GET has an entity tag, and a client that has
// the value already gets only a 304 (RFC 9110, 13.1.2).
func send(w http.ResponseWriter, r *http.Request, status int, v any) error {
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return fault.From(err)
	}
	h := w.Header()
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		sum := sha256.Sum256(b)
		tag := `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`
		h.Set("ETag", tag)
		h.Set("Cache-Control", "no-cache")
		for _, have := range strings.Split(r.Header.Get("If-None-Match"), ",") {
			if have = strings.TrimPrefix(strings.TrimSpace(have), "W/"); have == tag || have == "*" {
				w.WriteHeader(http.StatusNotModified)
				return nil
			}
		}
	}
	door.Answer(w, status, "application/json", b) // HEAD gets only the headers
	return nil
}
