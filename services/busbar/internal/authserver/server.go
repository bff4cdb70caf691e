// Package authserver is an authorization server for a developer's own machine. "busbar dev --oauth" runs
// it, so that MCP clients log in as they would in a company. Anybody who reaches it can be any of its
// users, without a password, so it serves only loopback, and no other program imports it. Start at New.
package authserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/busbar-mcp/busbar/libs/listener"
)

// Config configures a server. Every field except Logger is required.
type Config struct {
	// Listener must be on loopback; the server closes it. Its address is the issuer's URL.
	Listener net.Listener
	// Resource is the URL of the MCP endpoint, the one audience of all tokens.
	Resource string
	// Dir is the directory of the signing key, so that tokens survive a restart.
	Dir string
	// Users returns the current users; Scopes the current scopes.
	Users  func() []User
	Scopes func() []string
	Logger *slog.Logger
}

// User is somebody who may log in.
type User struct {
	// Name is the subject of tokens.
	Name string
	// Note is shown next to the user on the login page, such as "tenant acme".
	Note string
}

// Server is an authorization server.
type Server struct {
	cfg    Config
	issuer string
	host   string
	key    *key
	grants *grants
	docs   *documents
	now    func() time.Time
	http   *http.Server
}

const (
	// maxConnections bounds the connections, half of which one address may use.
	maxConnections = 256
	// maxHeader bounds the header of a request, and so the query of a login; maxBody bounds
	// forms and registrations. Both are in bytes.
	maxHeader = 16 << 10
	maxBody   = 64 << 10
	// requestTime is the time limit for reading and answering a request.
	requestTime = 15 * time.Second
)

// New returns a server, and creates its signing key if it is missing. It fails if the listener is not on
// loopback.
func New(cfg Config) (*Server, error) {
	addr, ok := cfg.Listener.Addr().(*net.TCPAddr)
	if !ok || !addr.IP.IsLoopback() {
		return nil, fmt.Errorf("%s is a public address, but the development authorization server needs no password; use 127.0.0.1", cfg.Listener.Addr())
	}
	k, err := openKey(cfg.Dir)
	if err != nil {
		return nil, err
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	s := &Server{cfg: cfg, host: addr.String(), issuer: "http://" + addr.String(), key: k, now: time.Now}
	s.grants, s.docs = newGrants(), newDocuments()
	mux := http.NewServeMux()
	for _, path := range []string{"/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"} {
		mux.Handle(path, anyOrigin(http.MethodGet, s.metadata))
	}
	mux.Handle(keysPath, anyOrigin(http.MethodGet, s.keys))
	mux.Handle(tokenPath, anyOrigin(http.MethodPost, s.token))
	mux.Handle(registerPath, anyOrigin(http.MethodPost, s.register))
	mux.HandleFunc("GET "+authorizePath, s.authorize)
	mux.HandleFunc("POST "+authorizePath, s.decide)
	s.http = &http.Server{
		Handler: s.here(mux), MaxHeaderBytes: maxHeader, ReadTimeout: requestTime, WriteTimeout: requestTime, IdleTimeout: time.Minute,
		ErrorLog: slog.NewLogLogger(cfg.Logger.Handler(), slog.LevelDebug),
	}
	return s, nil
}

// Issuer returns the server's URL, which is iss in tokens.
func (s *Server) Issuer() string { return s.issuer }

// Serve serves until ctx ends.
func (s *Server) Serve(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = s.http.Close() })
	defer stop()
	err := s.http.Serve(listener.Bound(s.cfg.Listener, maxConnections))
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// here refuses requests for another host. Otherwise a web page whose name resolves to this machine could
// read the answers.
func (s *Server) here(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		if !strings.EqualFold(r.Host, s.host) {
			http.Error(w, "This server is "+s.issuer+"; use that address.", http.StatusMisdirectedRequest)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		next.ServeHTTP(w, r)
	})
}

// anyOrigin serves an endpoint that web pages also use. It must not depend on cookies.
func anyOrigin(method string, f http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", "*")
		switch r.Method {
		case method:
			f(w, r)
		case http.MethodOptions:
			h.Set("Access-Control-Allow-Methods", method)
			h.Set("Access-Control-Allow-Headers", "*")
			w.WriteHeader(http.StatusNoContent)
		default:
			h.Set("Allow", method+", OPTIONS")
			http.Error(w, "Method Not Allowed", http.StatusMethodNotAllowed)
		}
	})
}
