package edge

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/busbar-mcp/busbar/libs/listener"
	"github.com/busbar-mcp/busbar/libs/probe"
	"github.com/busbar-mcp/busbar/libs/token"
	"github.com/busbar-mcp/busbar/services/edge/door"
)

// ListenFlags say where an edge listens, and to whom. The tags are read by kong.
type ListenFlags struct {
	Listen        string `default:"127.0.0.1:8000" env:"BUSBAR_LISTEN" placeholder:"HOST:PORT" help:"Where HTTP clients connect. Port 0 takes a free one (default ${default})."`
	GRPCListen    string `name:"grpc-listen" env:"BUSBAR_GRPC_LISTEN" placeholder:"HOST:PORT" help:"Where gRPC clients connect, for example 127.0.0.1:8001. Without it there is no gRPC."`
	MetricsListen string `env:"BUSBAR_METRICS_LISTEN" placeholder:"HOST:PORT" help:"Where /metrics, /healthz and /readyz are served, for example 127.0.0.1:9100. Without it there are no metrics."`
	MetricsToken  string `name:"metrics-token-file" env:"BUSBAR_METRICS_TOKEN_FILE" placeholder:"FILE" help:"File with the bearer token that /metrics asks for. An edge that authenticates its clients asks for this one or for the operator's, in its data directory."`

	TLSCert     string `name:"tls-cert" env:"BUSBAR_TLS_CERT" placeholder:"FILE" help:"Certificate of every listener, with its chain, in PEM. Read again when it changes, as the other files of TLS are."`
	TLSKey      string `name:"tls-key" env:"BUSBAR_TLS_KEY" placeholder:"FILE" help:"Key of the certificate, in PEM."`
	TLSClientCA string `name:"tls-client-ca" env:"BUSBAR_TLS_CLIENT_CA" placeholder:"FILE" help:"Authorities whose certificates clients may show, in PEM. A client without one is let in, and must authenticate in another way."`
	TLSByProxy  bool   `name:"tls-by-proxy" env:"BUSBAR_TLS_BY_PROXY" help:"Listen on a public address without a certificate. A proxy must encrypt, and nothing else may reach the address."`

	AllowHost   []string `env:"BUSBAR_ALLOW_HOST" placeholder:"NAME" help:"Host names that this edge answers to. A loopback listener also answers to loopback names."`
	AllowOrigin []string `env:"BUSBAR_ALLOW_ORIGIN" placeholder:"ORIGIN" help:"Web origins whose pages may call this edge, such as https://app.example.com."`
}

// Guard is the part of the flags about who may call.
func (f ListenFlags) Guard() door.Guard {
	return door.Guard{Hosts: f.AllowHost, Origins: f.AllowOrigin}
}

// Listeners are the listeners of an edge, with the certificate of all of them, nil
// without TLS. Only HTTP is never nil.
type Listeners struct {
	HTTP, GRPC, Metrics net.Listener
	TLS                 *listener.TLS
	// MetricsToken opens the metrics, as the operator's token does; empty for none.
	MetricsToken token.Token
	// LeaveTime is how long an edge that is told to stop still serves, so that those who
	// asked for /readyz lately see that it will stop.
	LeaveTime time.Duration
}

// Open opens the listeners. On a public address, clients are served only if they are
// authenticated, by the edge (authenticated) or by a proxy, and only if they are
// encrypted, by the edge or by a proxy.
func (f ListenFlags) Open(authenticated bool) (_ *Listeners, err error) {
	l := &Listeners{}
	defer func() {
		if err != nil {
			l.Close()
		}
	}()
	if l.TLS, err = f.certificate(); err != nil {
		return nil, err
	}
	if f.MetricsToken != "" {
		if l.MetricsToken, err = token.Read(f.MetricsToken); err != nil {
			return nil, fmt.Errorf("--metrics-token-file: %w", err)
		}
	}
	for _, one := range []struct {
		what, flag, address string
		to                  *net.Listener
	}{
		{"HTTP", "--listen", f.Listen, &l.HTTP}, {"gRPC", "--grpc-listen", f.GRPCListen, &l.GRPC},
		{"metrics", "--metrics-listen", f.MetricsListen, &l.Metrics},
	} {
		if one.address == "" && one.to != &l.HTTP {
			continue
		}
		if *one.to, err = net.Listen("tcp", one.address); err != nil {
			return nil, fmt.Errorf("%s listener: %w; choose another with %s", one.what, err, one.flag)
		}
		known := authenticated || one.to == &l.Metrics && l.MetricsToken != ""
		if err := f.safe(*one.to, one.flag+" "+one.address, known); err != nil {
			return nil, err
		}
	}
	return l, nil
}

func (f ListenFlags) certificate() (*listener.TLS, error) {
	switch {
	case f.TLSCert != "" && f.TLSKey != "":
		return listener.Load(listener.Files{Cert: f.TLSCert, Key: f.TLSKey, ClientCA: f.TLSClientCA}, slog.Default())
	case f.TLSCert != "" || f.TLSKey != "" || f.TLSClientCA != "":
		return nil, errors.New("TLS takes --tls-cert and --tls-key, and --tls-client-ca if clients have certificates: the first two go together")
	}
	return nil, nil
}

// safe returns why it would not be safe to serve clients there.
func (f ListenFlags) safe(l net.Listener, where string, authenticated bool) error {
	switch {
	case isLoopback(l):
		return nil
	case !authenticated:
		return fmt.Errorf("%s is a public address, and nobody would be authenticated there: say who may call with --access FILE, or listen on 127.0.0.1; behind a proxy see docs/guides/secure-the-bus.md", where)
	case f.TLSCert == "" && !f.TLSByProxy:
		return fmt.Errorf("%s is a public address, and nothing would be encrypted there: give --tls-cert and --tls-key, or --tls-by-proxy if a proxy in front encrypts", where)
	}
	return nil
}

// Bounds on connections; one address may have half of them.
const (
	//limit:connection HTTP connections of an edge; one address may have half | more are closed
	maxConnections = 20_000
	//limit:connection gRPC connections of an edge; one address may have half | more are closed
	maxGRPCConnections = 1000
)

func (l *Listeners) http() net.Listener {
	return l.TLS.Listen(listener.Bound(l.HTTP, maxConnections), http2Protocol, "http/1.1")
}

func (l *Listeners) grpc() net.Listener {
	return l.TLS.Listen(listener.Bound(l.GRPC, maxGRPCConnections), http2Protocol)
}

func (l *Listeners) metrics() net.Listener {
	return l.TLS.Listen(probe.Bound(l.Metrics), "http/1.1")
}

func isLoopback(l net.Listener) bool {
	addr, ok := l.Addr().(*net.TCPAddr)
	return ok && addr.IP.IsLoopback()
}

// Close closes all of them. Closing again does nothing.
func (l *Listeners) Close() {
	for _, one := range []net.Listener{l.HTTP, l.GRPC, l.Metrics} {
		if one != nil {
			_ = one.Close()
		}
	}
	if l.TLS != nil {
		l.TLS.Close()
		l.TLS = nil
	}
}

// MCP is the URL of the MCP endpoint.
func (l *Listeners) MCP() string { return l.scheme() + "://" + l.HTTP.Addr().String() + "/mcp" }

func (l *Listeners) scheme() string {
	if l.TLS != nil {
		return "https"
	}
	return "http"
}

// String is the part of a ready line that says where the edge listens.
func (l *Listeners) String() string {
	s := "mcp=" + l.MCP()
	if l.GRPC != nil {
		s += " grpc=" + l.GRPC.Addr().String()
	}
	if l.Metrics != nil {
		s += " metrics=" + l.scheme() + "://" + l.Metrics.Addr().String() + probe.MetricsPath
	}
	return s
}
