package door_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/listener"
	"github.com/busbar-mcp/busbar/services/edge/door"
)

// maxOpen is how many connections a client may have.
const maxOpen = 10

// lasting is a server of lasting streams.
type lasting struct {
	*httptest.Server
	connections *door.Connections
	// returned receives a value for each handler that returns, ended one for each stream
	// that has ended.
	returned, ended chan struct{}
	closing         chan struct{} // streams end
	timed           *timed
}

// timed records the deadline of the last write on any of its connections, 0 for none, and
// how many bytes were read from them.
type timed struct {
	net.Listener
	deadline, read atomic.Int64
}

// Accept implements net.Listener.
func (l *timed) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return timedConn{c, l}, err
}

type timedConn struct {
	net.Conn
	all *timed
}

// Read implements net.Conn.
func (c timedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.all.read.Add(int64(n))
	return n, err
}

// SetWriteDeadline implements net.Conn.
func (c timedConn) SetWriteDeadline(t time.Time) error {
	if t.IsZero() {
		c.all.deadline.Store(0)
	} else {
		c.all.deadline.Store(t.UnixNano())
	}
	return c.Conn.SetWriteDeadline(t)
}

// serveLasting serves streams that send each word, and "bye" at their end, on up to
// maxOpen connections.
func serveLasting(t *testing.T, secure bool, word <-chan string) *lasting {
	t.Helper()
	l := &lasting{
		connections: door.NewConnections(bustest.Logger(t)),
		returned:    make(chan struct{}, 100), ended: make(chan struct{}, 100), closing: make(chan struct{}),
	}
	l.Server = httptest.NewUnstartedServer(door.Multiplexed(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		stream := l.connections.Last(w, r)
		ctx, path := stream.Context(), r.URL.Path
		w.Header().Set("Mark", "x")
		stream.Serve(func(events *door.Events) {
			defer func() { l.ended <- struct{}{} }()
			switch path {
			case "/flood":
				for large := []byte(strings.Repeat("x", 100<<10)); events.Send(large); {
				}
				<-ctx.Done()
				return
			case "/panic":
				panic("a defect")
			}
			for {
				select {
				case m := <-word:
					events.Notify([]byte(m))
				case <-l.closing:
					events.Send([]byte("bye"))
					return
				case <-ctx.Done():
					return
				}
			}
		})
		l.returned <- struct{}{}
	})))
	l.timed = &timed{Listener: listener.Bound(l.Listener, 2*maxOpen)}
	l.Listener = l.timed
	l.Config.WriteTimeout = serverTime
	l.EnableHTTP2 = secure
	if secure {
		l.StartTLS()
	} else {
		l.Start()
	}
	t.Cleanup(func() {
		over, cut := context.WithCancel(context.Background())
		cut()
		l.connections.End(over) // returns when all have ended
		l.Close()
		if n := l.connections.Open(); n != 0 {
			t.Errorf("%d are open at the end", n)
		}
	})
	return l
}

// open opens a stream, in a version of HTTP.
func (l *lasting) open(t *testing.T, version int, path string) *http.Response {
	t.Helper()
	transport := l.Client().Transport.(*http.Transport).Clone()
	transport.Protocols = new(http.Protocols)
	transport.Protocols.SetHTTP1(version == 1)
	transport.Protocols.SetHTTP2(version == 2)
	if transport.TLSClientConfig != nil {
		transport.TLSClientConfig.NextProtos = nil
	}
	t.Cleanup(transport.CloseIdleConnections)
	resp, err := (&http.Client{Transport: transport}).Get(l.URL + path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	if resp.ProtoMajor != version || resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" || resp.Header.Get("Mark") != "x" {
		t.Fatalf("%+v", resp)
	}
	return resp
}

// comment shows each second that a stream lives; on a busy machine also before anything
// else.
const comment = ":\n\n"

// heard requires a word, which is as long as a comment.
func heard(t *testing.T, in io.Reader, want string) {
	t.Helper()
	for {
		b := make([]byte, len(comment))
		if _, err := io.ReadFull(in, b); err != nil || string(b) != want && string(b) != comment {
			t.Fatalf("heard %q, want %q: %v", b, want, err)
		}
		if string(b) == want {
			return
		}
	}
}

// uncommented is the stream without comments and chunks.
func uncommented(said []byte) string {
	return strings.ReplaceAll(strings.ReplaceAll(string(said), "3\r\n"+comment+"\r\n", ""), comment, "")
}

func await(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(bustest.Patience):
		t.Fatalf("did not happen in %v: %s", bustest.Patience, what)
	}
}

// A stream goes on after its handler has returned, which over HTTP/1.1 happens at once.
// It sends nothing but comments while there are no messages, and ends as HTTP demands.
func TestLasting(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		secure  bool
		version int
	}{"HTTP/1.1": {false, 1}, "HTTP/1.1 over TLS": {true, 1}, "HTTP/2": {true, 2}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			word := make(chan string)
			l := serveLasting(t, c.secure, word)
			resp := l.open(t, c.version, "/")
			if resp.Close != (c.version == 1) {
				t.Errorf("the connection ends with the answer: %v", resp.Close)
			}
			if c.version == 1 {
				await(t, "the handler returns", l.returned)
			}
			word <- "one"
			heard(t, resp.Body, "one")
			word <- "two"
			heard(t, resp.Body, "two")
			heard(t, resp.Body, comment)
			if c.version == 1 {
				for begun := time.Now(); time.Since(begun) < serverTime; { // longer than the server's own time limit
					heard(t, resp.Body, comment)
				}
				bustest.Eventually(t, "no deadline is left, which TLS's own messages would run into", func() bool { return l.timed.deadline.Load() == 0 })
			}
			close(l.closing)
			if rest, err := io.ReadAll(resp.Body); err != nil || uncommented(rest) != "bye" {
				t.Errorf("ends with %q: %v", rest, err)
			}
			await(t, "the stream ends", l.ended)
		})
	}
}

// A client that hangs up ends its stream, and a client that does not read is cut off;
// others go on.
func TestLastingClientsThatAreGone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		secure  bool
		version int
	}{"HTTP/1.1": {false, 1}, "HTTP/1.1 over TLS": {true, 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			word := make(chan string)
			l := serveLasting(t, c.secure, word)
			stays := l.open(t, c.version, "/")
			_ = l.open(t, c.version, "/").Body.Close()
			await(t, "the stream of who hung up ends", l.ended)
			talks, err := net.Dial("tcp", l.Listener.Addr().String())
			if c.secure && err == nil {
				talks = tls.Client(talks, &tls.Config{RootCAs: l.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs, ServerName: "example.com", NextProtos: []string{"http/1.1"}})
			}
			if err == nil {
				_, err = io.WriteString(talks, "GET / HTTP/1.1\r\nHost: x\r\n\r\nand more")
			}
			if err != nil {
				t.Fatal(err)
			}
			bustest.Eventually(t, "its stream is open", func() bool { return l.connections.Open() == 2 })
			more, before := []byte("still more"), l.timed.read.Load()
			if _, err := talks.Write(more); err != nil {
				t.Fatal(err)
			}
			bustest.Eventually(t, "it is read, so that its end is noticed", func() bool { return l.timed.read.Load() >= before+int64(len(more)) })
			_ = talks.Close()
			await(t, "the stream of who talked and hung up ends", l.ended)
			const stuck = 8
			for range stuck {
				l.open(t, c.version, "/flood")
			}
			for range stuck {
				await(t, "the stream of who does not read ends", l.ended)
			}
			_ = l.open(t, c.version, "/panic")
			await(t, "the stream with a defect ends", l.ended)
			bustest.Eventually(t, "only one is left", func() bool { return l.connections.Open() == 1 })
			for range maxOpen - 1 { // connections count until they end, and no longer
				l.open(t, c.version, "/")
			}
			if conn, err := net.Dial("tcp", l.Listener.Addr().String()); err == nil {
				_ = conn.SetDeadline(time.Now().Add(bustest.Patience))
				if n, err := conn.Read(make([]byte, 1)); n > 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("one connection more than there may be: %v", err)
				}
				_ = conn.Close()
			}
			goesOn := make(chan struct{})
			go func() {
				defer close(goesOn)
				for in := bufio.NewReader(stays.Body); ; { // there are comments, too
					if line, err := in.ReadString('\n'); err != nil || line == "one\n" {
						if err != nil {
							t.Error(err)
						}
						return
					}
				}
			}()
			for going := true; going; {
				select {
				case word <- "one\n": // to any of the streams
				case <-goesOn:
					going = false
				}
			}
		})
	}
}

// Stopping the server gives streams time to end, and then cuts them off.
func TestLastingEnd(t *testing.T) {
	t.Parallel()
	word := make(chan string)
	l := serveLasting(t, false, word)
	resp := l.open(t, 1, "/")
	l.open(t, 1, "/flood") // does not notice it
	await(t, "a handler returns", l.returned)
	await(t, "a handler returns", l.returned)
	if err := l.Config.Shutdown(t.Context()); err != nil { // net/http does not know these streams
		t.Fatal(err)
	}
	word <- "one"
	heard(t, resp.Body, "one")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.connections.End(ctx)
	}()
	close(l.closing)
	heard(t, resp.Body, "bye")
	cancel()
	await(t, "all have ended", ended)
}

// Special cases of HTTP/1.1: requests sent ahead, clients of HTTP/1.0, and proxies.
func TestLastingOnTheWire(t *testing.T) {
	t.Parallel()
	word := make(chan string, 1)
	l := serveLasting(t, false, word)
	write := func(request string) *bufio.Reader {
		conn, err := net.Dial("tcp", l.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_ = conn.SetDeadline(time.Now().Add(bustest.Patience))
		if _, err := io.WriteString(conn, request); err != nil {
			t.Fatal(err)
		}
		return bufio.NewReader(conn)
	}
	ahead := write("GET / HTTP/1.1\r\nHost: x\r\n\r\nGET /panic HTTP/1.1\r\nHost: x\r\n\r\n")
	old := write("GET / HTTP/1.0\r\n\r\n")
	upstream, err := url.Parse(l.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(httputil.NewSingleHostReverseProxy(upstream))
	t.Cleanup(proxy.Close)
	through, err := proxy.Client().Get(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = through.Body.Close() })
	bustest.Eventually(t, "three streams are open", func() bool { return l.connections.Open() == 3 })
	close(l.closing)
	for name, want := range map[string]struct {
		in   io.Reader
		ends string
	}{
		"sent ahead":      {ahead, "Transfer-Encoding: chunked\r\n\r\n3\r\nbye\r\n0\r\n\r\n"},
		"HTTP/1.0":        {old, "\r\n\r\nbye"},
		"through a proxy": {through.Body, "bye"},
	} {
		// A connection on which a request is left unread may end with a reset.
		said, err := io.ReadAll(want.in)
		got := uncommented(said)
		if !strings.HasSuffix(got, want.ends) || strings.Count(got, "HTTP/1.") > 1 || err != nil && name != "sent ahead" {
			t.Errorf("%s: %q %v", name, got, err)
		}
	}
	for range 3 {
		await(t, "a stream ends", l.ended)
	}
}

// TLS does not make it harder to cut off a stuck reader: its closing message does not
// wait.
func TestLastingCutOverTLS(t *testing.T) {
	t.Parallel()
	l := serveLasting(t, true, nil)
	conn, err := tls.Dial("tcp", l.Listener.Addr().String(), &tls.Config{RootCAs: l.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs, NextProtos: []string{"http/1.1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = fmt.Fprintf(conn, "GET /flood HTTP/1.1\r\nHost: x\r\n\r\n")
	await(t, "the handler returns", l.returned)
	over, cut := context.WithCancel(t.Context())
	cut()
	at := time.Now()
	l.connections.End(over)
	if took := time.Since(at); took > bustest.Promptly {
		t.Errorf("took %v", took)
	}
}
