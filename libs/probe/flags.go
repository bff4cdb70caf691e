package probe

import (
	"context"
	"fmt"
	"net"

	"github.com/busbar-mcp/busbar/libs/token"
)

// Flags are the flags of a service's probe, read by kong. An edge has flags of the same names,
// with its own certificate and accounts.
type Flags struct {
	MetricsListen string `env:"BUSBAR_METRICS_LISTEN" placeholder:"HOST:PORT" help:"Address for /healthz, /readyz and /metrics, for example 127.0.0.1:9100 (default: not served)."`
	MetricsToken  string `name:"metrics-token-file" env:"BUSBAR_METRICS_TOKEN_FILE" placeholder:"FILE" help:"File with the bearer token for /metrics. A service needs it unless the address is loopback."`
}

// Listener is an open listener for a probe.
type Listener struct {
	net.Listener
	token token.Token
}

// Open opens the listener that the flags name; nil if they name none.
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
		return nil, fmt.Errorf("--metrics-listen %s is a public address, where anybody could read the metrics; set --metrics-token-file FILE, or listen on 127.0.0.1", f.MetricsListen)
	}
	return l, nil
}

// URL returns the URL of the metrics.
func (l *Listener) URL() string { return "http://" + l.Addr().String() + MetricsPath }

// Serve serves a probe until ctx ends. It closes l.
func (l *Listener) Serve(ctx context.Context, p *Probe) error {
	if l.token == "" {
		return p.Serve(ctx, l.Listener, nil)
	}
	return p.Serve(ctx, l.Listener, l.token.Admits)
}
