// Package link stands between two parts of a fleet as a network does: it passes their
// bytes on, cuts their connections, holds bytes back until it is mended, or delays them.
package link

import (
	"context"
	"io"
	"net"
	"sync"
	"time"
)

// Link passes connections on to the first target that takes them.
type Link struct {
	listener net.Listener
	targets  []string
	all      sync.WaitGroup

	mu    sync.Mutex
	state state
	// changed is closed when the state changes.
	changed chan struct{}
	conns   map[net.Conn]bool
	closed  bool
}

type state struct {
	// cut: nobody gets in. held: bytes wait here, like bytes to a peer that TCP cannot reach, and
	// arrive when that is over.
	cut, held bool
	delay     time.Duration
}

// Listen begins.
func Listen(at string, targets ...string) (*Link, error) {
	l, err := net.Listen("tcp", at)
	if err != nil {
		return nil, err
	}
	k := &Link{listener: l, targets: targets, changed: make(chan struct{}), conns: map[net.Conn]bool{}}
	k.all.Go(k.accept)
	return k, nil
}

// Addr is where it listens.
func (k *Link) Addr() string { return k.listener.Addr().String() }

// Cut ends all connections and refuses new ones, until Mend.
func (k *Link) Cut() {
	k.set(state{cut: true})
	k.mu.Lock()
	defer k.mu.Unlock()
	for c := range k.conns {
		_ = c.Close()
	}
}

// Hold has nothing arrive until Mend, when all of it does.
func (k *Link) Hold() { k.set(state{held: true}) }

// Delay has everything arrive later.
func (k *Link) Delay(d time.Duration) { k.set(state{delay: d}) }

// Mend makes it good again.
func (k *Link) Mend() { k.set(state{}) }

func (k *Link) set(s state) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.state = s
	close(k.changed)
	k.changed = make(chan struct{})
}

// Close ends it, and waits for its connections.
func (k *Link) Close() {
	_ = k.listener.Close()
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	k.Cut()
	k.all.Wait()
}

func (k *Link) accept() {
	for {
		from, err := k.listener.Accept()
		if err != nil {
			return
		}
		k.all.Go(func() { k.pass(from) })
	}
}

// pass joins a connection with one to a target. One side's end is the other's.
func (k *Link) pass(from net.Conn) {
	defer func() { _ = from.Close() }()
	to := k.dial()
	if to == nil {
		return
	}
	defer func() { _ = to.Close() }()
	if !k.keep(from, to) {
		return
	}
	defer k.forget(from, to)
	ctx, end := context.WithCancel(context.Background())
	defer end()
	defer context.AfterFunc(ctx, func() { _, _ = from.Close(), to.Close() })()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{from, to}, {to, from}} {
		both.Go(func() {
			defer end()
			k.carry(ctx, way[1], way[0])
		})
	}
	both.Wait()
}

func (k *Link) dial() net.Conn {
	for _, t := range k.targets {
		if c, err := net.DialTimeout("tcp", t, time.Second); err == nil {
			return c
		}
	}
	return nil
}

// keep is false while the link is cut.
func (k *Link) keep(conns ...net.Conn) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.state.cut || k.closed {
		return false
	}
	for _, c := range conns {
		k.conns[c] = true
	}
	return true
}

func (k *Link) forget(conns ...net.Conn) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range conns {
		delete(k.conns, c)
	}
}

// carry copies one way. It delays and holds bytes as the link says.
func (k *Link) carry(ctx context.Context, to io.Writer, from io.Reader) {
	part := make([]byte, 32<<10)
	for {
		n, err := from.Read(part)
		if n > 0 {
			if !k.wait(ctx) {
				return
			}
			if _, err := to.Write(part[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// wait returns when bytes may go on; false when the connection has ended meanwhile.
func (k *Link) wait(ctx context.Context) bool {
	for {
		k.mu.Lock()
		s, changed := k.state, k.changed
		k.mu.Unlock()
		if s.delay > 0 {
			select {
			case <-time.After(s.delay):
			case <-ctx.Done():
			}
		}
		if !s.held {
			return ctx.Err() == nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}
