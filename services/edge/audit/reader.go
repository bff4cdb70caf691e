package audit

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/door"
	"github.com/busbar-mcp/busbar/services/edge/forms"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/operator"
)

const (
	// Service is the service that keeps the trail.
	Service = "audit"
	// Header has the operator's token of the edge.
	Header = "Busbar-Audit"
	// Method of reading the trail, as the trail names it.
	Method = bus.AuditQuery
)

// questionTime bounds one question; to check a long trail takes a while.
const questionTime = 5 * time.Minute

// Access is who reads the trail, and how much of it.
type Access struct {
	// Reader is recorded as who read.
	Reader gateway.Principal
	// All is the trail of all tenants; without it, only that of the reader's.
	All bool
}

// Reader lets people read the trail over HTTP: GET /audit/list, /audit/show and
// /audit/verify, with the audit service's filters as parameters. It is no part
// of MCP. Who read what is in the trail, too.
type Reader struct {
	Caller *bus.Caller
	Guard  door.Guard
	// Authorize says what a request may read, or a *fault.Error why it may not.
	// Nil: only Token is asked for.
	Authorize func(*http.Request) (Access, error)
	// Token admits who shows it in Header to the whole trail. Empty: nobody.
	Token operator.Token
	// Record takes the record of each reading.
	Record func(context.Context, gateway.Record) error
}

// ServeHTTP implements http.Handler.
func (a *Reader) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// The server's own limit is for short answers.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(questionTime + 10*time.Second))
	body, err := a.answer(r)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if err != nil {
		f := fault.From(err)
		body, _ = json.Marshal(refusal{f.Message, f.Reason}) // text alone
		w.WriteHeader(forms.Of(f.Reason).HTTP)
	}
	_, _ = w.Write(append(body, '\n'))
}

// refusal is the answer to a question that got none.
type refusal struct {
	Error  string       `json:"error"`
	Reason fault.Reason `json:"reason"`
}

func (a *Reader) answer(r *http.Request) (answer []byte, err error) {
	if err := a.Guard.Check(r); err != nil {
		return nil, err
	}
	c := gateway.View{ID: bus.NewID(), Call: &gateway.Call{
		Door: "audit", Method: Method, Name: strings.TrimPrefix(r.URL.Path, "/audit/"), Received: time.Now(), Credentials: door.Credentials(r),
	}}
	defer func() {
		record := gateway.Record{View: c, Duration: time.Since(c.Received), Outcome: "ok", Err: fault.From(err)}
		if err != nil {
			record.Outcome = string(record.Err.Reason)
		}
		if a.Record != nil {
			_ = a.Record(r.Context(), record) // reading has no effect
		}
	}()
	access, err := a.access(r)
	if err != nil {
		return nil, err
	}
	c.Principal = access.Reader
	name := c.Name
	if r.Method != http.MethodGet || name != "list" && name != "show" && name != "verify" {
		return nil, fault.New(fault.MethodNotFound, "use GET on /audit/list, /audit/show or /audit/verify")
	}
	parameters := map[string]string{}
	for key, values := range r.URL.Query() {
		if len(values) != 1 {
			return nil, fault.New(fault.InvalidParams, "parameter %s is there more than once", fault.Clip(key))
		}
		parameters[key] = values[0]
	}
	if !access.All {
		own := cmp.Or(access.Reader.Tenant, "-")
		if asked, ok := parameters["tenant"]; ok && asked != own {
			return nil, fault.New(fault.Forbidden, "only the trail of your own tenant is open to you")
		}
		parameters["tenant"] = own
	}
	arguments, err := json.Marshal(parameters)
	if err != nil {
		return nil, fault.New(fault.InvalidParams, "the parameters are not valid UTF-8").Because(err)
	}
	c.Arguments = arguments
	ctx, cancel := context.WithTimeout(r.Context(), questionTime)
	defer cancel()
	frame, err := a.Caller.Call(ctx, Service, &busv1.Request{Method: bus.AuditQuery, Name: name, Arguments: arguments}, nil)
	if fault.Is(err, fault.Unavailable) {
		return nil, fault.New(fault.Unavailable, "no audit service runs on this bus, or the bus is away; start one with \"busbar audit serve\"").Because(err)
	}
	if err != nil {
		return nil, err
	}
	return frame.GetResult().GetJson(), nil
}

// access is what a request may read.
func (a *Reader) access(r *http.Request) (Access, error) {
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	ip := net.ParseIP(host)
	switch local := ip != nil && ip.IsLoopback(); {
	case r.Header.Get("Origin") == "" && local && a.Token.Admits(r.Header.Get(Header)):
		return Access{Reader: gateway.Principal{Name: "operator"}, All: true}, nil
	case a.Authorize != nil:
		return a.Authorize(r)
	}
	return Access{}, fault.New(fault.Forbidden, "the audit trail is read on the edge's own machine: \"busbar audit\" shows the token of the edge's data directory in the header "+Header)
}
