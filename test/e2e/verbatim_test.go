package e2e

import (
	"strings"
	"testing"
	"time"
)

// TestIDs has ids come back as they were written, byte for byte.
func TestIDs(t *testing.T) {
	e := testEdge.Use(t)
	t.Parallel()
	p := startPipe(t, "--nats", e.nats)
	for _, id := range []string{
		`0`, `1`, `-1`, `9007199254740991`, `-9007199254740991`, `""`, `"1"`, `"a b"`, `"żółć"`, `"\u0041"`, `"\/"`, `"a\"b"`, `"😀"`, `"\ud83d\ude00"`,
		quoted(strings.Repeat("i", 128)),
	} {
		t.Run(id, func(t *testing.T) {
			for what, body := range map[string]string{
				"result": modernBody(id, "tools/call", `"name":"echo","arguments":{"value":"x"},`, ""),
				"error":  modernBody(id, "tools/call", `"name":"echo","arguments":7,`, ""),
			} {
				r := send(t, post(t, e.mcp, body, modernHeaders("tools/call", "echo")...))
				if string(r.message.ID) != id || (what == "error") != (r.message.Error != nil) {
					t.Errorf("the %s over HTTP has id %s: %s", what, r.message.ID, clip(r.body))
				}
				p.write(body)
				p.await("the "+what, response(id))
			}
		})
	}
	t.Run("in flight twice", func(t *testing.T) {
		// In one piece, so that the second is read while the first runs.
		p.write(modernBody(`"twice"`, "tools/call", `"name":"slow","arguments":{"key":"twice","ms":3000},`, "") + "\n" +
			modernBody(`"twice"`, "tools/call", `"name":"append","arguments":{"key":"second"},`, ""))
		first, second := p.await("one", response(`"twice"`)), p.await("the other", response(`"twice"`))
		if first.Error == nil || first.Error.Code != invalid || second.Error != nil {
			t.Errorf("answered %s and %s", first.raw, second.raw)
		}
		if e.ledger.Runs("second") != 0 {
			t.Error("the second ran")
		}
	})
}

// TestNumbers has arguments reach the tool as they were written.
func TestNumbers(t *testing.T) {
	e := testEdge.Use(t)
	t.Parallel()
	for _, n := range []string{`9007199254740993`, `-0`, `0.1`, `1e2`, `1E-7`, `123456789012345678901234567890`, `3.141592653589793238462643`} {
		t.Run(n, func(t *testing.T) {
			m := send(t, modernCall(t, e.mcp, "1", "raw", `{"n":`+n+`}`)).message
			if m.Error != nil {
				t.Fatal(m.Error)
			}
			if got := m.text(); got != `{"n":`+n+`}` {
				t.Errorf("the tool got %s", got)
			}
		})
	}
}

// TestOversize posts more than the edge reads.
func TestOversize(t *testing.T) {
	e := testEdge.Use(t)
	t.Parallel()
	body := strings.Replace(withID("1"), "KEY", strings.Repeat("x", 1<<20), 1)
	for name, chunked := range map[string]bool{"with a length": false, "in chunks": true} {
		t.Run(name, func(t *testing.T) {
			r := post(t, e.mcp, body, modernHeaders("tools/call", "append")...)
			if chunked {
				r.ContentLength = -1
			}
			began := time.Now()
			checkRefused(t, send(t, r), 413, -32600, "too_large")
			if took := time.Since(began); took > time.Second+slack {
				t.Errorf("took %v", took)
			}
		})
	}
}
