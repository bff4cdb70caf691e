package rest

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/services/edge/api"
	"github.com/busbar-mcp/busbar/services/edge/door"
)

// openAPIDocument is the interface of this door without its tools; a test checks that it
// is true.
//
//go:embed openapi.json
var openAPIDocument []byte

const (
	// maxDescribed bounds the part of the document about tools, bytes; the other tools
	// are at /tools/{name}.
	//limit:message schemas and descriptions in one OpenAPI document | tools are left out and counted
	maxDescribed = 4 << 20
	// maxDocuments and maxKept, bytes, bound the cached documents. Callers that see the
	// same tools share one.
	maxDocuments, maxKept = 32, 16 << 20
)

// documents are cached by the revision of the catalogue that the caller sees.
type documents struct {
	mu   sync.Mutex
	kept map[any][]byte
	size int
}

func (d *documents) document(revision any) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.kept[revision]
}

func (d *documents) keep(revision any, document []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.size += len(document); d.kept == nil || len(d.kept) >= maxDocuments || d.size > maxKept {
		d.kept, d.size = map[any][]byte{}, len(document) // the revisions of the others are mostly outdated
	}
	d.kept[revision] = document
}

// openAPI describes this door with a path for each tool that the caller may use.
func (h *Handler) openAPI(w http.ResponseWriter, r *http.Request, who api.Caller, _ string) error {
	revision, err := h.cfg.API.Revision(r.Context(), who)
	if err != nil {
		return err
	}
	document := h.documents.document(revision)
	if document == nil {
		tools, err := h.cfg.API.Tools(r.Context(), who, api.Page{})
		if err != nil {
			return err
		}
		if document, err = describe(tools.Entries, r.PathValue(door.Toolset)); err != nil {
			return err
		}
		h.documents.keep(revision, document)
	}
	w.Header().Set("X-Content-Type-Options", "nosniff")
	return send(w, r, http.StatusOK, jsontext.Value(document))
}

// operation describes how to call a tool.
type operation struct {
	ID          string           `json:"operationId"`
	Summary     string           `json:"summary"`
	Description string           `json:"description,omitzero"`
	Tags        []string         `json:"tags,omitempty"`
	Parameters  []jsontext.Value `json:"parameters"`
	Body        content          `json:"requestBody"`
	Responses   map[string]any   `json:"responses"`
}

type content struct {
	Description string           `json:"description,omitzero"`
	Content     map[string]media `json:"content"`
}

type media struct {
	Schema any `json:"schema"`
}

func ref(to string) jsontext.Value { return jsontext.Value(`{"$ref":"#/components/` + to + `"}`) }

// describe writes the document of a toolset; its name is empty for all tools.
func describe(tools []*api.Tool, set string) ([]byte, error) {
	var doc struct {
		Members    map[string]jsontext.Value            `json:",embed"`
		Servers    []map[string]string                  `json:"servers,omitempty"`
		Paths      map[string]jsontext.Value            `json:"paths"`
		Components map[string]map[string]jsontext.Value `json:"components"`
		LeftOut    int                                  `json:"x-busbar-left-out,omitzero"`
	}
	if err := json.Unmarshal(openAPIDocument, &doc); err != nil {
		return nil, err
	}
	if set != "" {
		doc.Servers = []map[string]string{{"url": "/" + toolsets + "/" + url.PathEscape(set)}}
		for path := range doc.Paths {
			if !setHas(path) {
				delete(doc.Paths, path)
			}
		}
	}
	taken := map[string]bool{}
	size := 0
	for i, t := range tools {
		parts := map[string]jsontext.Value{}
		op, err := describeTool(t, componentKey(t.Name, taken), parts)
		if err != nil {
			return nil, err
		}
		path, err := json.Marshal(map[string]any{"post": op}, json.Deterministic(true))
		if err != nil {
			return nil, err
		}
		size += len(path)
		for _, part := range parts { // measured here, where references are longer than before
			size += len(part)
		}
		if size > maxDescribed {
			doc.LeftOut = len(tools) - i
			break
		}
		maps.Copy(doc.Components["schemas"], parts)
		doc.Paths["/tools/"+url.PathEscape(t.Name)] = path
	}
	return json.Marshal(doc, json.Deterministic(true))
}

// setHas reports whether a path exists below the name of a toolset.
func setHas(path string) bool {
	root, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return root != "openapi.json" && strings.Contains(" "+strings.Join(throughToolset, " ")+" ", " "+root+" ")
}

// componentKey is a tool's name in the characters that keys of components may have. It is
// different for each tool.
func componentKey(name string, taken map[string]bool) string {
	key := strings.Map(func(c rune) rune {
		if c < 0x80 && (c == '.' || c == '-' || c == '_' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z') {
			return c
		}
		return '_'
	}, name)
	unique := key
	for n := 2; taken[unique]; n++ {
		unique = fmt.Sprintf("%s.%d", key, n)
	}
	taken[unique] = true
	return unique
}

// describeTool adds the schemas of a tool and returns its operation.
func describeTool(t *api.Tool, key string, schemas map[string]jsontext.Value) (*operation, error) {
	result := any(ref("schemas/ToolResult"))
	var err error
	in, out := "tool."+key+".input", "tool."+key+".output"
	if schemas[in], err = localRefs(t.InputSchema, "#/components/schemas/"+in); err != nil {
		return nil, err
	}
	if t.OutputSchema != nil {
		if schemas[out], err = localRefs(t.OutputSchema, "#/components/schemas/"+out); err != nil {
			return nil, err
		}
		result = map[string]any{"allOf": []any{
			ref("schemas/ToolResult"), map[string]any{"properties": map[string]any{"structured_content": ref("schemas/" + out)}},
		}}
	}
	op := &operation{
		ID: "tool." + key, Summary: t.Title, Description: t.Description, Parameters: []jsontext.Value{ref("parameters/IdempotencyKey")},
		Body: content{Content: map[string]media{"application/json": {ref("schemas/" + in)}}},
		Responses: map[string]any{
			"200":     content{"The tool's result", map[string]media{"application/json": {result}}},
			"202":     ref("responses/Held"),
			"default": ref("responses/Problem"),
		},
	}
	if op.Summary == "" {
		op.Summary = t.Name
	}
	if t.Service != "" {
		op.Tags = []string{t.Service}
	}
	return op, nil
}

// instances are keywords whose values are not schemas: a member $ref in them is data.
var instances = map[string]bool{"const": true, "enum": true, "default": true, "examples": true, "example": true}

// named are keywords whose members have names that the author of the schema chose.
var named = map[string]bool{"properties": true, "patternProperties": true, "$defs": true, "definitions": true, "dependentSchemas": true}

// localRefs is a schema whose references to its own parts point to their places in the
// document. A subschema with its own $id resolves its references itself. $schema, which
// may name another draft, is left out: the document has one dialect.
func localRefs(schema jsontext.Value, at string) (jsontext.Value, error) {
	var top struct {
		ID string `json:"$id,omitzero"`
	}
	if json.Unmarshal(schema, &top) != nil || top.ID != "" {
		return schema, nil
	}
	var b bytes.Buffer
	in, out := jsontext.NewDecoder(bytes.NewReader(schema)), jsontext.NewEncoder(&b)
	for {
		token, err := in.ReadToken()
		if errors.Is(err, io.EOF) {
			return bytes.TrimSpace(b.Bytes()), nil
		}
		if err != nil {
			return nil, err
		}
		keyword := ""
		if kind, n := in.StackIndex(in.StackDepth()); kind == '{' && n%2 == 1 && !named[in.StackPointer().Parent().LastToken()] {
			keyword = token.String()
		}
		if keyword == "$schema" && in.StackDepth() == 1 {
			if err := in.SkipValue(); err != nil {
				return nil, err
			}
			continue
		}
		if err := out.WriteToken(token); err != nil {
			return nil, err
		}
		if instances[keyword] || keyword == "$ref" {
			v, err := in.ReadValue()
			if err == nil && keyword == "$ref" {
				v, err = moved(v, at)
			}
			if err == nil {
				err = out.WriteValue(v)
			}
			if err != nil {
				return nil, err
			}
		}
	}
}

// moved is a reference, moved to a place in the document.
func moved(v jsontext.Value, at string) (jsontext.Value, error) {
	var to string
	if json.Unmarshal(v, &to) != nil {
		return v, nil
	}
	if local, ok := strings.CutPrefix(to, "#"); ok && (local == "" || local[0] == '/') {
		return json.Marshal(at + local)
	}
	return v, nil
}
