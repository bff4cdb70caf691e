package audit

import (
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
)

const (
	// Service is the service that keeps the trail.
	Service = "audit"
	// Header says that the trail is meant to be read; any value will do.
	Header = "Busbar-Audit"
)

// questionTime bounds one question; to check a long trail takes a while.
const questionTime = 5 * time.Minute

// Reader lets people read the trail over HTTP: GET /audit/list, /audit/show and
// /audit/verify, with the audit service's filters as parameters. It is no part
// of MCP.
type Reader struct {
	Caller *bus.Caller
	Guard  door.Guard
	// Authorize returns nil for a request that may read all of the trail, or a
	// *fault.Error. Nil: only requests of this machine to a listener on loopback
	// may, and need Header, which neither a page nor a tool that fetches URLs can
	// send.
	Authorize func(*http.Request) error
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
		w.WriteHeader(status(f.Reason))
	}
	_, _ = w.Write(append(body, '\n'))
}

// refusal is the answer to a question that got none.
type refusal struct {
	Error  string       `json:"error"`
	Reason fault.Reason `json:"reason"`
}

func status(r fault.Reason) int {
	switch r {
	case fault.Forbidden:
		return http.StatusForbidden
	case fault.Unauthenticated:
		return http.StatusUnauthorized
	case fault.MethodNotFound, fault.UnknownResource:
		return http.StatusNotFound
	case fault.InvalidParams, fault.InvalidRequest:
		return http.StatusBadRequest
	case fault.Internal:
		return http.StatusInternalServerError
	}
	return http.StatusServiceUnavailable
}

func (a *Reader) answer(r *http.Request) ([]byte, error) {
	if err := a.Guard.Check(r); err != nil {
		return nil, err
	}
	authorize := a.Authorize
	if authorize == nil {
		authorize = a.local
	}
	if err := authorize(r); err != nil {
		return nil, err
	}
	name := strings.TrimPrefix(r.URL.Path, "/audit/")
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
	arguments, err := json.Marshal(parameters)
	if err != nil {
		return nil, fault.New(fault.InvalidParams, "the parameters are not valid UTF-8").Because(err)
	}
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

// local is the authorization where nobody has an account.
func (a *Reader) local(r *http.Request) error {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	ip := net.ParseIP(host)
	switch {
	case !a.Guard.Loopback || err != nil || ip == nil || !ip.IsLoopback():
		return fault.New(fault.Forbidden, "the audit trail is read on the edge's own machine, at a listener on loopback")
	case r.Header.Get("Forwarded") != "" || r.Header.Get("X-Forwarded-For") != "":
		return fault.New(fault.Forbidden, "the audit trail is not read through a proxy")
	case r.Header.Get("Origin") != "" || r.Header.Get(Header) == "":
		return fault.New(fault.Forbidden, "the audit trail is for people: use \"busbar audit\", or send the header "+Header)
	}
	return nil
}
