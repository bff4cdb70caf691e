package websocket_test

import (
	"bufio"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	client "github.com/coder/websocket"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

func TestUpgrade(t *testing.T) {
	t.Parallel()
	open, guarded := start(t, nil), start(t, &keys{revoked: make(chan struct{})})
	for name, c := range map[string]struct {
		w      *world
		query  string
		header map[string]string
		status int
	}{
		"no origin":                  {open, "", nil, 101},
		"a local page":               {open, "", map[string]string{"Origin": "http://localhost:3000"}, 101},
		"a page of another site":     {open, "", map[string]string{"Origin": "https://evil.example"}, 403},
		"a page without origin":      {open, "", map[string]string{"Origin": "null"}, 403},
		"a rebound host":             {open, "", map[string]string{"Host": "evil.example"}, 403},
		"a token in the URL":         {guarded, "?access_token=key", nil, 400},
		"no token":                   {guarded, "", nil, 401},
		"another token":              {guarded, "", map[string]string{"Authorization": "Bearer other"}, 401},
		"a token":                    {guarded, "", map[string]string{"Authorization": "Bearer key"}, 101},
		"a token as a subprotocol":   {guarded, "", map[string]string{"Sec-WebSocket-Protocol": "bearer, key"}, 401},
		"a subprotocol of no use":    {open, "", map[string]string{"Sec-WebSocket-Protocol": "chat, graphql-ws"}, 400},
		"a subprotocol among others": {open, "", map[string]string{"Sec-WebSocket-Protocol": "chat, mcp"}, 101},
		"another version":            {open, "", map[string]string{"Sec-WebSocket-Version": "8"}, 400},
		"no upgrade":                 {open, "", map[string]string{"Upgrade": "", "Connection": ""}, 426},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.w.url+c.query, nil)
			if err != nil {
				t.Fatal(err)
			}
			for k, v := range map[string]string{"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="} {
				r.Header.Set(k, v)
			}
			for k, v := range c.header {
				if r.Header.Set(k, v); v == "" {
					r.Header.Del(k)
				}
				if k == "Host" {
					r.Host = v
				}
			}
			transport := &http.Transport{}
			defer transport.CloseIdleConnections()
			resp, err := transport.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = resp.Body.Close() }()
			if resp.StatusCode != c.status {
				t.Errorf("status %d, want %d", resp.StatusCode, c.status)
			}
		})
	}
}

// raw is a connection whose frames the test writes itself.
type raw struct {
	net.Conn
	in *bufio.Reader
	t  *testing.T
}

func (w *world) raw(t *testing.T) *raw {
	t.Helper()
	host := strings.TrimSuffix(strings.TrimPrefix(w.url, "http://"), "/ws")
	c, err := net.Dial("tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(bustest.Patience))
	_, _ = fmt.Fprintf(c, "GET /ws HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", host)
	in := bufio.NewReader(c)
	resp, err := http.ReadResponse(in, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatal(err, resp)
	}
	return &raw{c, in, t}
}

// frame writes a masked frame.
func (r *raw) frame(first byte, payload []byte) error {
	b := []byte{first}
	switch n := len(payload); {
	case n < 126:
		b = append(b, 0x80|byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, 0x80|126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, 0x80|127), uint64(n))
	}
	var mask [4]byte
	_, _ = rand.Read(mask[:])
	b = append(b, mask[:]...)
	for i, c := range payload {
		b = append(b, c^mask[i%4])
	}
	_, err := r.Write(b)
	return err
}

// readable reports whether the server has sent something.
func (r *raw) readable() bool {
	_ = r.SetReadDeadline(time.Now().Add(time.Millisecond))
	_, err := r.in.Peek(1)
	_ = r.SetDeadline(time.Now().Add(bustest.Patience))
	return err == nil
}

// none stands for a connection that ends, with a code or cut off: a client that still
// sends may not hear why.
const none = 0

// orCut is set in a code that such a client may also not receive.
const orCut = 1 << 15

// closed requires a close frame with a code, whatever comes before.
func (r *raw) closed(code uint16) {
	r.t.Helper()
	cut := code == none || code&orCut != 0
	code &^= orCut
	for {
		kind, payload, err := r.next()
		switch {
		case err != nil && cut && !errors.Is(err, os.ErrDeadlineExceeded):
			return
		case err != nil:
			r.t.Fatalf("no close frame: %v", err)
		case kind == closing:
			if got := binary.BigEndian.Uint16(payload); code != none && got != code {
				r.t.Errorf("closed with %d %s, want %d", got, payload[2:], code)
			}
			return
		}
	}
}

// next reads a frame of less than 64 KiB.
func (r *raw) next() (kind byte, payload []byte, err error) {
	var head [2]byte
	if _, err := io.ReadFull(r.in, head[:]); err != nil {
		return 0, nil, err
	}
	n := int(head[1] & 0x7f)
	if n == 126 {
		var long [2]byte
		_, _ = io.ReadFull(r.in, long[:])
		n = int(binary.BigEndian.Uint16(long[:]))
	}
	payload = make([]byte, n)
	_, err = io.ReadFull(r.in, payload)
	return head[0] & 0xf, payload, err
}

const (
	text, binaryFrame, closing, ping, final = 1, 2, 8, 9, 0x80
)

func TestFrames(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	for name, c := range map[string]struct {
		write func(r *raw)
		code  uint16
	}{
		"a message of 2 MiB": {func(r *raw) { _ = r.frame(final|text, make([]byte, 2<<20)) }, none},
		"one of 2 MiB in parts": {func(r *raw) {
			_ = r.frame(text, make([]byte, 1<<19))
			for range 3 {
				_ = r.frame(0, make([]byte, 1<<19))
			}
		}, none},
		// Refused for its length (1009), and not because it takes too long (1008).
		"L10 a length of 64 bits": {func(r *raw) {
			_, _ = r.Write([]byte{final | text, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0})
		}, 1009},
		"L10 a length of 63 bits, and no more": {func(r *raw) {
			_, _ = r.Write([]byte{final | text, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
			_, _ = r.Write([]byte{0, 0, 0, 0})
		}, 1009},
		"L10 one part more than fits": {func(r *raw) {
			_ = r.frame(text, make([]byte, 900<<10))
			_, _ = r.Write([]byte{0, 0xff, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0})
		}, 1009},
		"text that is not UTF-8":   {func(r *raw) { _ = r.frame(final|text, []byte("{\"type\":\"\xff\"}")) }, 1007},
		"bytes":                    {func(r *raw) { _ = r.frame(final|binaryFrame, []byte("{}")) }, 1003},
		"a compressed message":     {func(r *raw) { _ = r.frame(final|0x40|text, []byte("x")) }, 1002},
		"a part without beginning": {func(r *raw) { _ = r.frame(final, []byte("x")) }, 1002},
		"an unknown kind":          {func(r *raw) { _ = r.frame(final|3, nil) }, 1002},
		"parts without an end": {func(r *raw) {
			_ = r.frame(text, nil)
			for r.frame(0, nil) == nil {
				if r.in.Buffered() > 0 || r.readable() {
					return
				}
			}
		}, none},
		"a flood of pings": {func(r *raw) {
			for range 5000 {
				if r.frame(final|ping, nil) != nil {
					return
				}
			}
		}, 1008 | orCut},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := w.raw(t)
			c.write(r)
			r.closed(c.code)
		})
	}
	t.Run("a client that answers no ping is gone", func(t *testing.T) {
		t.Parallel()
		r := w.raw(t)
		_ = r.frame(final|text, []byte(`{"type":"tool_request","id":1,"data":{"name":"hold"}}`))
		edgetest.Receive(t, "its call runs", w.Svc.Started)
		edgetest.Receive(t, "its call ends", w.Svc.Ended)
	})
	t.Run("a client whose messages come is there, whenever it answers pings", func(t *testing.T) {
		t.Parallel()
		r := w.raw(t)
		_ = r.SetDeadline(time.Now().Add(bustest.Patience))
		for pings := 0; pings < 2; { // the second one comes when the answer to the first is overdue
			kind, payload, err := r.next()
			switch {
			case err != nil:
				t.Fatalf("the connection ended after %d pings: %v", pings, err)
			case kind == closing:
				t.Fatalf("closed with %d %s after %d pings", binary.BigEndian.Uint16(payload), payload[2:], pings)
			case kind == ping:
				pings++
				_ = r.frame(final|text, []byte(`{"type":"no_such","id":1}`))
			}
		}
	})
}

// test/matrix and services/edge/protocol ask the rest of MCP at this door.
func TestMCP(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	for name, protocols := range map[string][]string{"by subprotocol": {"mcp"}, "by the first message": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := w.dial(t, protocols...).Conversation(t)
			if name == "by subprotocol" {
				if m := c.Ask(`{"type":"initialize","id":1}`); m.Code() != mcp.CodeInvalidRequest {
					t.Errorf("it gets other messages: %+v", m)
				}
			}
			c.Greet(mcp.V20250618)
			if m := c.Ask(edgetest.Call("2", "echo", `{"a":1}`)); m.Text() != `{"a":1}` || m.Field("resultType") != `"complete"` {
				t.Errorf("%s", m.Result)
			}
		})
	}
	c := w.dial(t, "mcp")
	c.Send(edgetest.Call("1", "hold", `{}`))
	w.Svc.Running(t)
	_ = c.Close(client.StatusNormalClosure, "")
	w.Svc.Over(t)
}

func FuzzMessage(f *testing.F) {
	w := start(f, nil)
	for _, seed := range []string{
		`{"type":"initialize","id":"x"}`, `{"type":"tool_request","id":1,"data":{"name":"echo","parameters":{}}}`, `{"type":"cancel","id":1}`,
		`{"type":"batch_request","id":1,"data":{"calls":[{"name":"safe"}]}}`, `{"type":"sampling_request","id":1,"data":{}}`, `{}`, `[]`, `7`, "\xff",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, m string) {
		if strings.Contains(m, "hold") || strings.Contains(m, "flood") || strings.Contains(m, "steps") {
			t.Skip("never ends by itself")
		}
		s := w.dial(t)
		if s.Write(t.Context(), client.MessageText, []byte(m)) == nil {
			_ = s.Close(client.StatusNormalClosure, "")
		}
	})
}
