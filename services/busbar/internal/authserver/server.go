// Package authserver is an authorization server for one's own machine: "busbar dev
// --oauth" has it, so that MCP clients log in as they would at a company's. Whoever
// reaches it may be any of its users, without a password, so it serves loopback alone
// and no other program imports it.
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

// Config is what a server is made of. All but Logger is needed.
type Config struct {
	// Listener is on loopback; the server closes it. Its address is the issuer's URL.
	Listener net.Listener
	// Resource is the URL of the MCP endpoint, the one audience of all tokens.
	Resource string
	// Dir is where the signing key is kept, so that tokens outlive a restart.
	Dir string
	// Users are those who may log in, now; Scopes is what may be asked for, now.
	Users  func() []User
	Scopes func() []string
	Logger *slog.Logger
}

// User is somebody who may log in.
type User struct {
	// Name is the subject of tokens.
	Name string
	// Note is said of the user on the login page, such as "tenant acme".
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
	// maxConnections bounds the connections, half of which one address may have.
	maxConnections = 256
	// maxHeader bounds the header of a request, and so the query of a login; maxBody
	// bounds forms and registrations. Bytes.
	maxHeader = 16 << 10
	maxBody   = 64 << 10
	// requestTime bounds how long a request is read and answered.
	requestTime = 15 * time.Second
)

// New makes a server, and its signing key where there is none. It fails for a listener
// that others than this machine reach.
func New(cfg Config) (*Server, error) {
	addr, ok := cfg.Listener.Addr().(*net.TCPAddr)
	if !ok || !addr.IP.IsLoopback() {
		return nil, fmt.Errorf("%s is a public address, and the development authorization server asks for no password: use 127.0.0.1", cfg.Listener.Addr())
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

// Issuer is the server's URL, as tokens have it in iss.
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

// here refuses requests for another host: a web page whose name points at this machine
// would read what it is answered.
func (s *Server) here(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		if !strings.EqualFold(r.Host, s.host) {
			http.Error(w, "This is "+s.issuer+", and nothing else.", http.StatusMisdirectedRequest)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		next.ServeHTTP(w, r)
	})
}

// anyOrigin serves an endpoint that web pages use too. Nothing there depends on cookies.
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
