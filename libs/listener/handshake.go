package listener

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/sourcegraph/conc"
)

const (
	// maxHandshakes bounds the concurrent handshakes of a listener.
	//limit:connection concurrent TLS handshakes of a listener; one address may have half | more connections are closed
	maxHandshakes = 1000
	// handshakeTime is the time limit of a handshake.
	//limit:process a TLS handshake | the connection is closed
	handshakeTime = 5 * time.Second
)

// Listen returns l with TLS, for clients that speak one of protocols (RFC 7301). It accepts
// *tls.Conn after their handshake. Without a certificate it returns l.
func (t *TLS) Listen(l net.Listener, protocols ...string) net.Listener {
	if t == nil {
		return l
	}
	s := &secured{Listener: l, log: t.log, places: newPlaces(maxHandshakes), ready: make(chan net.Conn), failed: make(chan error)}
	s.config = settings()
	s.config.SessionTicketsDisabled = t.files.ClientCA != ""
	s.config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		c := t.current.Load().config.Clone()
		c.NextProtos = protocols
		return c, nil
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.closed = sync.OnceValue(s.close)
	s.running.Go(s.accept)
	return s
}

// secured is a listener whose handshakes run concurrently, so that no client waits for
// another one's slow handshake.
type secured struct {
	net.Listener
	config *tls.Config
	log    *slog.Logger
	places *places

	ready  chan net.Conn
	failed chan error

	ctx     context.Context
	cancel  context.CancelFunc
	running conc.WaitGroup
	closed  func() error
}

// Accept implements net.Listener.
func (s *secured) Accept() (net.Conn, error) {
	select {
	case c := <-s.ready:
		return c, nil
	case err := <-s.failed:
		return nil, err
	case <-s.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. It ends handshakes in progress.
func (s *secured) Close() error { return s.closed() }

func (s *secured) close() error {
	s.cancel()
	err := s.Listener.Close()
	s.running.Wait()
	return err
}

func (s *secured) accept() {
	for {
		c, err := s.Listener.Accept()
		if err != nil {
			select {
			case s.failed <- err: // the server decides whether to go on
				continue
			case <-s.ctx.Done():
				return
			}
		}
		address := addressOf(c)
		if !s.places.enter(address) {
			_ = c.Close()
			continue
		}
		s.running.Go(func() {
			defer s.places.left(address)
			s.handshake(c)
		})
	}
}

func (s *secured) handshake(c net.Conn) {
	ctx, cancel := context.WithTimeout(s.ctx, handshakeTime)
	defer cancel()
	conn := tls.Server(c, s.config)
	if err := conn.HandshakeContext(ctx); err != nil {
		s.log.Debug("a TLS handshake failed", "error", err)
		if record := (tls.RecordHeaderError{}); errors.As(err, &record) && record.Conn != nil {
			_ = c.SetWriteDeadline(time.Now().Add(time.Second))
			_, _ = io.WriteString(c, "HTTP/1.0 400 Bad Request\r\n\r\nthis port uses TLS; use https\n")
		}
		_ = c.Close()
		return
	}
	select {
	case s.ready <- conn:
	case <-s.ctx.Done():
		_ = conn.Close()
	}
}
