// Package door holds what the HTTP doors have in common: whom they let in, how they read
// a request, and how they write answers, streams and sockets. Each door is a package
// below. Start with Guard (whom), ReadBody (in) and Events, Socket or Answer (out).
package door

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/listener"
	"github.com/busbar-mcp/busbar/libs/mcp"
)

// Guard refuses requests that a web page of another origin makes through a
// user's browser, DNS rebinding included (2026-07-28, streamable-http,
// Security & Endpoint).
type Guard struct {
	// Loopback is set if the edge is reached only under loopback names.
	Loopback bool
	// Hosts are further host names, without port, that the edge answers to. If it is
	// empty and Loopback is not set, the edge answers to any.
	Hosts []string
	// Origins are web origins, such as https://app.example.com, whose pages may
	// call the edge.
	Origins []string
}

// Check returns a *fault.Error for a request to refuse. The reason is Forbidden for a
// host name that is not the edge's, and for a web page of another origin. The reason is
// InvalidRequest for two Authorization headers, because a proxy in front may have checked
// the other one, and for a token in the URL, because logs keep URLs.
func (g Guard) Check(r *http.Request) error {
	if len(r.Header["Authorization"]) > 1 {
		return fault.New(fault.InvalidRequest, "header Authorization appears twice")
	}
	if r.URL.RawQuery != "" && r.URL.Query().Has("access_token") {
		return fault.New(fault.InvalidRequest, "tokens belong in the Authorization header, not in the URL")
	}
	if !g.host(r.Host) {
		name := fault.Clip(listener.HostOf(r.Host))
		return fault.New(fault.Forbidden, "this edge does not answer to the host name %q; whoever runs it lets it in with --allow-host %[1]s", name).Toward(g.names())
	}
	origins := r.Header["Origin"]
	if len(origins) == 0 {
		return nil
	}
	if len(origins) > 1 || !g.origin(origins[0]) {
		return fault.New(fault.Forbidden, "pages of the origin %q may not call this edge; whoever runs it lets them with --allow-origin", fault.Clip(origins[0])).
			Toward("start the edge with --allow-origin and that origin, if you run it; a program other than a web page must not send the header Origin")
	}
	return nil
}

// names are the names of the edge, as far as everybody may know them.
func (g Guard) names() string {
	if g.Loopback {
		return "ask it as localhost or 127.0.0.1, from its own machine; for another name start it with --allow-host and that name, if you run it"
	}
	return "ask it at the name that whoever runs it has given you; for another one start it with --allow-host and that name, if you run it"
}

func (g Guard) host(hostport string) bool {
	if !g.Loopback && len(g.Hosts) == 0 {
		return true
	}
	name := listener.HostOf(hostport)
	return g.Loopback && listener.IsLoopbackHost(name) || slices.ContainsFunc(g.Hosts, func(h string) bool { return strings.EqualFold(h, name) })
}

func (g Guard) origin(origin string) bool {
	if slices.Contains(g.Origins, origin) {
		return true
	}
	u, err := url.Parse(origin)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "" {
		return false
	}
	return g.Loopback && listener.IsLoopbackHost(u.Hostname())
}

// The headers that a web page may send and read (Fetch Standard, CORS protocol).
const (
	corsMethods = "POST, GET, PUT, PATCH, DELETE"
	corsExposed = mcp.HeaderSessionID + ", WWW-Authenticate, Retry-After, Location, Allow, ETag, Busbar-Reason, Busbar-Executed, Busbar-Next, Idempotency-Replayed"
	corsMaxAge  = "600" // seconds
)

// CORS lets pages of an origin that the Guard has let pass read the answer. It reports
// whether the request was a preflight, which it has then answered.
func CORS(w http.ResponseWriter, r *http.Request) (preflight bool) {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	h := w.Header()
	h.Add("Vary", "Origin")
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", corsExposed)
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	h.Set("Access-Control-Allow-Methods", corsMethods)
	// The headers that a call needs depend on the tool (Mcp-Param-…), so the page gets
	// the ones that it asks for. They give it nothing that a client of its own would
	// lack.
	if wanted := r.Header.Get("Access-Control-Request-Headers"); wanted != "" {
		h.Set("Access-Control-Allow-Headers", wanted)
		h.Add("Vary", "Access-Control-Request-Headers")
	}
	h.Set("Access-Control-Max-Age", corsMaxAge)
	w.WriteHeader(http.StatusNoContent)
	return true
}
