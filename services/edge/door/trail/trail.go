// Package trail is the door at which people read the audit trail: GET /audit/list,
// /audit/tail, /audit/show and /audit/verify, with the audit service's filters as
// parameters. POST /audit/redeliver, for the operator, brings back events that were put
// aside. The door is not part of MCP. Each use of it is recorded in the trail, too.
package trail

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/token"
	"github.com/busbar-mcp/busbar/services/edge/door"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

const (
	// Path is the path of the door, with the question behind it.
	Path = "/audit/"
	// Header carries the operator's token of the edge.
	Header = "Busbar-Audit"
)

// access is the reader of the trail, and how much of it the reader may see.
type access struct {
	// reader is recorded as the reader.
	reader gateway.Principal
	// all is set for the trails of all tenants; otherwise only the trail of the reader's
	// tenant may be read.
	all bool
}

// Config configures the door, and says whom it lets in.
type Config struct {
	Gateway *gateway.Gateway
	Guard   door.Guard
	// Token admits callers that show it in Header to the whole trail. If it is empty,
	// nobody is admitted to that.
	Token token.Token
	// Dead holds the events that were put aside. Those that the audit service has written
	// are deleted there.
	Dead interface {
		Forget(ctx context.Context, seqs []uint64) error
	}
}

// redeliver is the only question that changes something: it writes the events that were
// put aside.
const redeliver = "redeliver"

// noTenant asks the audit service for events that belong to no tenant.
const noTenant = "-"

// Handler serves the trail.
type Handler struct{ cfg Config }

// New makes the door.
func New(cfg Config) *Handler { return &Handler{cfg} }

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// The server's own limit is for short answers.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(gateway.AuditTimeout + 10*time.Second))
	body, err := h.answer(w, r)
	w.Header().Set("Cache-Control", "no-store")
	if err != nil {
		door.RefuseProblem(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(body, '\n'))
}

func (h *Handler) answer(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if err := h.cfg.Guard.Check(r); err != nil {
		return nil, err
	}
	c := &gateway.Call{
		Door: "audit", Method: gateway.AuditQuery, Name: strings.TrimPrefix(r.URL.Path, Path),
		Credentials: door.Credentials(r), Received: time.Now(),
	}
	method := http.MethodGet
	if c.Name == redeliver {
		method = http.MethodPost
	}
	if r.Method != method {
		return nil, door.NotAllowed(w, r, method)
	}
	by, refused := h.access(r, c.Credentials)
	if refused == nil {
		c.Arguments, refused = question(r, c.Name, by)
	}
	// A refused request goes to the gateway too, which records it.
	c.Who = func() (gateway.Principal, error) { return by.reader, refused }
	answer, err := h.cfg.Gateway.Do(r.Context(), c, nil)
	if fault.Is(err, fault.Unavailable) {
		f := fault.From(err)
		return nil, fault.New(fault.Unavailable, "the audit trail does not answer: %s; if no audit service runs, start one with \"busbar audit serve\"", f.Message).Ran(f.Executed).Because(err)
	}
	if err != nil {
		return nil, err
	}
	body := answer.Result.GetJson()
	if c.Name == redeliver {
		err = h.forget(r.Context(), body)
	}
	return body, err
}

// forget deletes from stream DLQ the events that the trail has, according to the answer
// to redeliver.
func (h *Handler) forget(ctx context.Context, body []byte) error {
	var trail struct {
		Committed []uint64 `json:"committed"`
	}
	if err := json.Unmarshal(body, &trail); err != nil {
		return fault.New(fault.Internal, "the answer of the audit service is malformed").Ran(fault.Unknown).Because(err)
	}
	if err := h.cfg.Dead.Forget(ctx, trail.Committed); err != nil {
		return fault.New(fault.Unavailable, "the events are in the trail, but could not all be deleted from stream DLQ; repeat the command").Ran(fault.Yes).Because(err)
	}
	return nil
}

// Operator reports whether a request is the operator's: from the edge's own machine, not
// from a web page, and with the edge's token in Header.
func Operator(r *http.Request, own token.Token) bool {
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback() && r.Header.Get("Origin") == "" && own.Admits(r.Header.Get(Header))
}

// access is how much a request may read.
func (h *Handler) access(r *http.Request, c gateway.Credentials) (access, error) {
	if Operator(r, h.cfg.Token) {
		return access{gateway.Principal{Name: "operator"}, true}, nil
	}
	reader, err := h.cfg.Gateway.TrailReader(r.Context(), c)
	return access{reader: reader}, err
}

// question is a request's question to the audit service, limited to what it may read.
func question(r *http.Request, name string, by access) ([]byte, error) {
	switch {
	case name == redeliver && !by.all:
		return nil, fault.New(fault.Forbidden, "only the operator redelivers: use \"busbar audit redeliver\" on the machine of an edge")
	case name != "list" && name != "tail" && name != "show" && name != "verify" && name != redeliver:
		return nil, fault.New(fault.MethodNotFound, "use GET on /audit/list, /audit/tail, /audit/show or /audit/verify, or POST on /audit/redeliver")
	}
	parameters := map[string]string{}
	for key, values := range r.URL.Query() {
		if len(values) != 1 {
			return nil, fault.New(fault.InvalidParams, "parameter %s is there more than once", fault.Clip(key))
		}
		parameters[key] = values[0]
	}
	if !by.all {
		own := cmp.Or(by.reader.Tenant, noTenant)
		if by.reader.Tenant == noTenant {
			return nil, fault.New(fault.Forbidden, "a tenant that is called %s cannot read its trail: the name stands for no tenant", noTenant)
		}
		if asked, ok := parameters["tenant"]; ok && asked != own {
			return nil, fault.New(fault.Forbidden, "only the trail of your own tenant is open to you")
		}
		parameters["tenant"] = own
		if name == "list" && parameters["cursor"] == "" {
			parameters["others"] = "count"
		}
	}
	arguments, err := json.Marshal(parameters, json.Deterministic(true))
	if err != nil {
		return nil, fault.New(fault.InvalidParams, "the parameters are not valid UTF-8").Because(err)
	}
	return arguments, nil
}
