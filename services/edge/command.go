package edge

import (
	"context"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/busbar-mcp/busbar/libs/bus"
)

// Command is the command line of an edge that runs as its own process. The
// tags are read by kong.
type Command struct {
	Listen               string   `default:"127.0.0.1:8000" env:"BUSBAR_LISTEN" placeholder:"HOST:PORT" help:"Where HTTP clients connect. Port 0 takes a free one (default ${default})."`
	GRPCListen           string   `name:"grpc-listen" env:"BUSBAR_GRPC_LISTEN" placeholder:"HOST:PORT" help:"Where gRPC clients connect, for example 127.0.0.1:8001. Without it there is no gRPC."`
	NATS                 string   `name:"nats" default:"nats://127.0.0.1:4222" env:"BUSBAR_NATS" placeholder:"URL" help:"NATS servers to join, comma-separated (default ${default})."`
	AllowHost            []string `env:"BUSBAR_ALLOW_HOST" placeholder:"NAME" help:"Host names this edge answers to, besides loopback names on a loopback listener."`
	AllowOrigin          []string `env:"BUSBAR_ALLOW_ORIGIN" placeholder:"ORIGIN" help:"Web origins whose pages may call this edge, such as https://app.example.com."`
	AuditSpool           string   `env:"BUSBAR_AUDIT_SPOOL" placeholder:"DIR" help:"Where the records of calls wait while the bus does not take them. Without it they wait in memory, and are lost when that is full."`
	AllowUnauthenticated bool     `env:"BUSBAR_ALLOW_UNAUTHENTICATED" help:"Listen on a public address although this version authenticates nobody. Put an authenticating proxy in front."`
}

// Help implements kong's HelpProvider.
func (Command) Help() string {
	return `Example: busbar edge --listen 127.0.0.1:8001 --nats nats://127.0.0.1:4222`
}

// connectTime is how long a starting edge waits for NATS.
const connectTime = 30 * time.Second

// Run serves until ctx ends. The line that says it is ready goes to out.
func (c *Command) Run(ctx context.Context, version string, out io.Writer) error {
	l, err := Listen(c.Listen, c.AllowUnauthenticated)
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }()
	g, err := ListenGRPC(c.GRPCListen, c.AllowUnauthenticated)
	if err != nil {
		return err
	}
	if g != nil {
		defer func() { _ = g.Close() }()
	}
	connecting, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	conn, err := bus.Connect(connecting, bus.Config{URL: c.NATS, Name: "edge"})
	if err != nil {
		return err
	}
	defer conn.Close()
	e, err := New(connecting, conn, c.Config(version))
	if err != nil {
		return err
	}
	defer e.Close()
	fmt.Fprintf(out, "busbar edge is ready: mcp=%s%s nats=%s\n", Endpoint(l), GRPCEndpoint(g), conn.URL())
	return e.ServeAll(ctx, l, g)
}

// Config is what the command line says about the edge itself.
func (c *Command) Config(version string) Config {
	cfg := Config{Version: version, Audit: Audit{SpoolDir: c.AuditSpool}}
	cfg.Guard.Hosts, cfg.Guard.Origins = c.AllowHost, c.AllowOrigin
	return cfg
}

// Listen opens the HTTP listener. A public address needs the caller's word
// that this is meant.
func Listen(address string, public bool) (net.Listener, error) {
	return listen("HTTP", "--listen", address, public)
}

// ListenGRPC opens the gRPC listener in the same way; nil for an empty address.
func ListenGRPC(address string, public bool) (net.Listener, error) {
	if address == "" {
		return nil, nil
	}
	return listen("gRPC", "--grpc-listen", address, public)
}

func listen(what, flag, address string, public bool) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s listener: %w; choose another with %s", what, err, flag)
	}
	if !l.Addr().(*net.TCPAddr).IP.IsLoopback() && !public {
		_ = l.Close()
		return nil, fmt.Errorf("%s is a public address and this version authenticates nobody: listen on 127.0.0.1, or run \"busbar edge --allow-unauthenticated\" behind an authenticating proxy", address)
	}
	return l, nil
}

// GRPCEndpoint is the part of a ready line that says where gRPC is, empty for
// no listener.
func GRPCEndpoint(l net.Listener) string {
	if l == nil {
		return ""
	}
	return " grpc=" + l.Addr().String()
}

// Endpoint is the URL of the MCP endpoint behind a listener.
func Endpoint(l net.Listener) string { return "http://" + l.Addr().String() + "/mcp" }
