package edge_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bustest"
)

// A connection without a request is kept for longer than the headers of a request may
// take, because clients open some ahead of need. A request that has begun still has its
// own time limit.
func TestUnusedConnections(t *testing.T) {
	t.Parallel()
	e := one(t)
	kept := serve(t, e).addr
	dial := func(t *testing.T, address string) net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	const headers = 5 * time.Second
	// silent reports whether a connection stays open without a word for that time.
	silent := func(c net.Conn, within time.Duration) bool {
		_ = c.SetReadDeadline(time.Now().Add(within))
		_, err := c.Read(make([]byte, 1))
		return errors.Is(err, os.ErrDeadlineExceeded)
	}
	t.Run("kept", func(t *testing.T) {
		t.Parallel()
		c := dial(t, kept)
		if !silent(c, headers+time.Second) {
			t.Fatal("a connection that brought no request was closed")
		}
		_ = c.SetDeadline(time.Now().Add(bustest.Patience))
		if _, err := io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("its first request: %v %v", resp, err)
		}
	})
	t.Run("headers that do not end", func(t *testing.T) {
		t.Parallel()
		c := dial(t, kept)
		if _, err := io.WriteString(c, "GET /healthz HTTP/1.1\r\nX: "); err != nil {
			t.Fatal(err)
		}
		if silent(c, headers+bustest.Promptly) {
			t.Error("a request whose headers do not end is waited for")
		}
	})
	t.Run("more than are kept", func(t *testing.T) {
		t.Parallel()
		e := one(t)
		flooded := serve(t, e).addr
		first := dial(t, flooded)
		for range 1000 {
			dial(t, flooded)
		}
		if silent(first, bustest.Patience) {
			t.Error("the oldest of 1,001 unused connections is kept")
		}
		if last := dial(t, flooded); !silent(last, 100*time.Millisecond) {
			t.Error("the newest one is closed")
		}
	})
}
