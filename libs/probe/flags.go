package probe

import (
	"context"
	"fmt"
	"net"

	"github.com/busbar-mcp/busbar/libs/token"
)

// Flags say where a service shows its probe. The tags are read by kong. An edge has
// flags of the same names, with its own certificate and accounts.
type Flags struct {
	MetricsListen string `env:"BUSBAR_METRICS_LISTEN" placeholder:"HOST:PORT" help:"Where /healthz, /readyz and /metrics are served, for example 127.0.0.1:9100. Without it nowhere."`
	MetricsToken  string `name:"metrics-token-file" env:"BUSBAR_METRICS_TOKEN_FILE" placeholder:"FILE" help:"File with the bearer token that /metrics asks for. An address that is not loopback needs it."`
}

// Listener is an open listener for a probe.
type Listener struct {
	net.Listener
	token token.Token
}

// Open opens the listener that the flags ask for; nil for none.
func (f Flags) Open() (_ *Listener, err error) {
	l := &Listener{}
	if f.MetricsToken != "" {
		if l.token, err = token.Read(f.MetricsToken); err != nil {
			return nil, fmt.Errorf("--metrics-token-file: %w", err)
		}
	}
	if f.MetricsListen == "" {
		return nil, nil
	}
	inner, err := net.Listen("tcp", f.MetricsListen)
	if err != nil {
		return nil, fmt.Errorf("metrics listener: %w; choose another with --metrics-listen", err)
	}
	l.Listener = Bound(inner)
	if addr, ok := inner.Addr().(*net.TCPAddr); l.token == "" && !(ok && addr.IP.IsLoopback()) {
		_ = inner.Close()
		return nil, fmt.Errorf("--metrics-listen %s is a public address, where anybody could read the metrics: give --metrics-token-file FILE, or listen on 127.0.0.1", f.MetricsListen)
	}
	return l, nil
}

// URL is where the figures are.
func (l *Listener) URL() string { return "http://" + l.Addr().String() + MetricsPath }

// Serve serves a probe until ctx ends. It closes l.
func (l *Listener) Serve(ctx context.Context, p *Probe) error {
	if l.token == "" {
		return p.Serve(ctx, l.Listener, nil)
	}
	return p.Serve(ctx, l.Listener, l.token.Admits)
}
