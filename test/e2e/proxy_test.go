package e2e

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// proxy is a proxy in front of the edges of a fleet: it gives each connection to an edge that
// accepts it.
type proxy struct {
	net.Listener
	targets []string
	// spread has connections given out in turn. Otherwise all go to the first
	// target that is there.
	spread bool
	next   atomic.Uint32
	closed context.Context
	conns  sync.WaitGroup
}

// startProxy runs a proxy before the edges at those URLs, and returns the URL to
// reach them by.
func startProxy(t testing.TB, spread bool, urls ...string) (p *proxy, url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p = &proxy{Listener: l, spread: spread}
	var closeAll context.CancelFunc
	p.closed, closeAll = context.WithCancel(context.Background())
	for _, u := range urls {
		p.targets = append(p.targets, strings.TrimSuffix(strings.TrimPrefix(u, "http://"), "/mcp"))
	}
	p.conns.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		closeAll()
		p.conns.Wait()
	})
	return p, "http://" + l.Addr().String() + "/mcp"
}

func (p *proxy) accept() {
	for {
		client, err := p.Accept()
		if err != nil {
			return
		}
		p.conns.Go(func() {
			edge := p.dial()
			if edge == nil {
				_ = client.Close()
				return
			}
			// One side's end is the other's.
			ctx, end := context.WithCancel(p.closed)
			context.AfterFunc(ctx, func() { _, _ = client.Close(), edge.Close() })
			p.conns.Go(func() {
				defer end()
				_, _ = io.Copy(edge, client)
			})
			defer end()
			_, _ = io.Copy(client, edge)
		})
	}
}

// dial is nil when no edge is there.
func (p *proxy) dial() net.Conn {
	first := 0
	if p.spread {
		first = int(p.next.Add(1))
	}
	for i := range p.targets {
		if conn, err := net.Dial("tcp", p.targets[(first+i)%len(p.targets)]); err == nil {
			return conn
		}
	}
	return nil
}
