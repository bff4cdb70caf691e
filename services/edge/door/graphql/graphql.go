// Package graphql is the door at /graphql: queries and mutations by POST, subscriptions
// over a WebSocket. The schema has the field names of the API of version 1.0.0.
//
// Start with Handler.ServeHTTP. scan.go refuses expensive documents before they are
// parsed, resolve.go has the resolvers, and socket.go the subscriptions.
package graphql

import (
	"context"
	_ "embed"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	gql "github.com/graph-gophers/graphql-go"
	"github.com/sourcegraph/conc/panics"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/api"
	"github.com/busbar-mcp/busbar/services/edge/door"
	"github.com/busbar-mcp/busbar/services/edge/forms"
)

// Path is the path at which to mount the door.
const Path = "/graphql"

// Schema is the door's schema in GraphQL's schema language.
//
//go:embed schema.graphql
var Schema string

// parallel is how many fields of one query are resolved at once.
const parallel = 16

// eventTime is the time limit for resolving one event of a subscription.
const eventTime = 10 * time.Second

// Config configures the door.
type Config struct {
	API         *api.Server
	Connections *door.Connections
	// Closing is closed when sockets have to end.
	Closing <-chan struct{}
	Guard   door.Guard
	// Limits of one body or message; zero fields mean mcp.DefaultLimits.
	Limits mcp.Limits
	Logger *slog.Logger
}

// Handler serves Path.
type Handler struct {
	cfg Config
	// schema is for calls; described is for queries of the schema itself, which are
	// deeper.
	schema, described *gql.Schema
}

// New makes the door.
func New(cfg Config) *Handler {
	if cfg.Limits.Bytes == 0 {
		cfg.Limits.Bytes = mcp.DefaultLimits().Bytes
	}
	h := &Handler{cfg: cfg}
	parse := func(depth int) *gql.Schema {
		return gql.MustParseSchema(Schema, &root{cfg.API, cfg.Closing},
			gql.UseStringDescriptions(), gql.UseFieldResolvers(), gql.DisableFieldSelections(), gql.MaxDepth(depth),
			gql.MaxParallelism(parallel), gql.OverlapValidationLimit(10_000), gql.Logger(h), gql.PanicHandler(h),
			// For one event, which has arrived already.
			gql.SubscribeResolverTimeout(eventTime))
	}
	h.schema, h.described = parse(maxDepth), parse(maxIntrospection)
	return h
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := h.cfg.Guard.Check(r); err != nil {
		refuse(w, err)
		return
	}
	if door.CORS(w, r) {
		return
	}
	switch {
	case r.Method == http.MethodGet && r.Header.Get("Upgrade") != "":
		h.subscribe(w, r)
	case (r.Method == http.MethodGet || r.Method == http.MethodHead) && h.cfg.Guard.Loopback && strings.Contains(r.Header.Get("Accept"), "text/html"):
		servePage(w)
	case r.Method != http.MethodPost:
		// Not even for queries: a page of any origin can make a browser send a GET.
		refuse(w, door.NotAllowed(w, r, http.MethodPost))
	default:
		h.post(w, r)
	}
}

func (h *Handler) post(w http.ResponseWriter, r *http.Request) {
	if err := door.CheckContent(r.Header); err != nil {
		refuse(w, err)
		return
	}
	// Before the body: nothing is read of a caller that may not come in.
	who, err := door.Caller(h.cfg.API, r, "graphql")
	if err != nil {
		refuse(w, err)
		return
	}
	body, err := door.ReadBody(w, r, h.cfg.Limits.Bytes)
	if err == nil {
		err = mcp.Valid(body, h.cfg.Limits)
	}
	if err != nil {
		refuse(w, err)
		return
	}
	response := h.execute(r.Context(), who, body)
	status := http.StatusOK
	if reason := refused(response); reason != "" {
		status = forms.ForReason(reason).HTTP
		door.Explain(w.Header(), status, fault.New(reason, ""))
	}
	answer(w, status, response)
}

// operation is the operation of a request, checked.
type operation struct {
	schema      *gql.Schema
	query, name string
	variables   map[string]any
}

// read reads a request and scans its document.
func (h *Handler) read(who api.Caller, body jsontext.Value) (*operation, error) {
	if body.Kind() == '[' {
		return nil, fault.New(fault.InvalidRequest, "requests cannot be sent in arrays; use executeTools for many calls")
	}
	var in struct {
		Query      string                    `json:"query"`
		Name       *string                   `json:"operationName,omitzero"`
		Variables  map[string]jsontext.Value `json:"variables,omitzero"`
		Extensions jsontext.Value            `json:"extensions,omitzero"`
	}
	if err := json.Unmarshal(body, &in, json.RejectUnknownMembers(true)); err != nil {
		return nil, fault.New(fault.InvalidRequest, `a request is {"query":…,"variables":{…},"operationName":…}`).Because(err)
	}
	o, err := scan(in.Query)
	if err != nil {
		return nil, err
	}
	op := &operation{schema: h.schema, query: in.Query, variables: make(map[string]any, len(in.Variables))}
	if o.introspects {
		if !h.cfg.Guard.Loopback && who.Credentials.Bearer == "" {
			return nil, fault.New(fault.Forbidden, "the schema is told to callers with a token only; docs/reference/doors.md links to it")
		}
		op.schema = h.described
	}
	if in.Name != nil {
		op.name = *in.Name
	}
	for name, v := range in.Variables {
		if err := checkVariable(h.schema.AST(), fault.Clip(name), o.variables[name], v); err != nil {
			return nil, err
		}
		if op.variables[name], err = variable(v); err != nil {
			return nil, fault.From(err)
		}
	}
	return op, nil
}

// execute carries out a query or mutation.
func (h *Handler) execute(ctx context.Context, who api.Caller, body jsontext.Value) *gql.Response {
	op, err := h.read(who, body)
	if err != nil {
		return refusal(err)
	}
	ctx = context.WithValue(ctx, callerKey{}, who)
	var response *gql.Response
	if caught := panics.Try(func() { response = op.schema.Exec(ctx, op.query, op.name, op.variables) }); caught != nil {
		h.LogPanic(ctx, caught.Value)
		return refusal(fault.New(fault.Internal, "internal error"))
	}
	complete(response)
	return response
}

func refuse(w http.ResponseWriter, err error) {
	status := door.Status(err)
	door.Explain(w.Header(), status, fault.From(err))
	answer(w, status, refusal(err))
}

func answer(w http.ResponseWriter, status int, r *gql.Response) {
	w.Header().Set("Cache-Control", "no-store")
	if r.Data != nil && len(r.Errors) == 0 && len(r.Extensions) == 0 {
		// The data is JSON already, and may be large.
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		out := door.Paced(w)
		for _, part := range [][]byte{[]byte(`{"data":`), r.Data, {'}'}} {
			if _, err := out.Write(part); err != nil {
				return
			}
		}
		return
	}
	b, err := encode(r)
	if err != nil {
		status, b = http.StatusInternalServerError, []byte(`{"errors":[{"message":"internal error"}]}`)
	}
	door.Answer(w, status, "application/json", b)
}

func encode(r *gql.Response) ([]byte, error) { return json.Marshal(r, json.Deterministic(true)) }
