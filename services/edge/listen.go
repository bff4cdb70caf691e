package edge

import (
	"fmt"
	"net"

	"github.com/busbar-mcp/busbar/services/edge/door"
)

// ListenFlags are the flags that say where an edge listens, and to whom. The tags are
// read by kong.
type ListenFlags struct {
	Listen        string `default:"127.0.0.1:8000" env:"BUSBAR_LISTEN" placeholder:"HOST:PORT" help:"Where HTTP clients connect. Port 0 takes a free one (default ${default})."`
	GRPCListen    string `name:"grpc-listen" env:"BUSBAR_GRPC_LISTEN" placeholder:"HOST:PORT" help:"Where gRPC clients connect, for example 127.0.0.1:8001. Without it there is no gRPC."`
	MetricsListen string `env:"BUSBAR_METRICS_LISTEN" placeholder:"HOST:PORT" help:"Where /metrics is served for Prometheus, for example 127.0.0.1:9100, to anybody who reaches it. Without it there are no metrics."`

	AllowHost   []string `env:"BUSBAR_ALLOW_HOST" placeholder:"NAME" help:"Host names this edge answers to, besides loopback names on a loopback listener."`
	AllowOrigin []string `env:"BUSBAR_ALLOW_ORIGIN" placeholder:"ORIGIN" help:"Web origins whose pages may call this edge, such as https://app.example.com."`
}

// Guard is what the flags say about who may call.
func (f ListenFlags) Guard() door.Guard {
	return door.Guard{Hosts: f.AllowHost, Origins: f.AllowOrigin}
}

// Listeners are what an edge listens on. Only HTTP is never nil.
type Listeners struct{ HTTP, GRPC, Metrics net.Listener }

// Open opens the listeners. A public address for clients needs the caller's
// word that this is meant; one for metrics is meant.
func (f ListenFlags) Open(public bool) (_ *Listeners, err error) {
	l := &Listeners{}
	defer func() {
		if err != nil {
			l.Close()
		}
	}()
	if l.HTTP, err = listen("HTTP", "--listen", f.Listen, public); err != nil {
		return nil, err
	}
	if f.GRPCListen != "" {
		if l.GRPC, err = listen("gRPC", "--grpc-listen", f.GRPCListen, public); err != nil {
			return nil, err
		}
	}
	if f.MetricsListen != "" {
		if l.Metrics, err = listen("metrics", "--metrics-listen", f.MetricsListen, true); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// Listen opens the listener for HTTP alone.
func Listen(address string, public bool) (net.Listener, error) {
	return listen("HTTP", "--listen", address, public)
}

func listen(what, flag, address string, public bool) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s listener: %w; choose another with %s", what, err, flag)
	}
	if !isLoopback(l) && !public {
		_ = l.Close()
		return nil, fmt.Errorf("%s is a public address and this version authenticates nobody: listen on 127.0.0.1, or run \"busbar edge --allow-unauthenticated\" behind an authenticating proxy", address)
	}
	return l, nil
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
}

// String is the part of a ready line that says where the edge is.
func (l *Listeners) String() string {
	s := "mcp=" + Endpoint(l.HTTP)
	if l.GRPC != nil {
		s += " grpc=" + l.GRPC.Addr().String()
	}
	if l.Metrics != nil {
		s += " metrics=http://" + l.Metrics.Addr().String() + "/metrics"
	}
	return s
}

// Endpoint is the URL of the MCP endpoint behind a listener.
func Endpoint(l net.Listener) string { return "http://" + l.Addr().String() + "/mcp" }
