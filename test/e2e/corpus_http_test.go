package e2e

import (
	"strings"
	"testing"
	"time"
)

// TestHTTPCorpus posts every malformed message to an edge, as a client of each
// era.
func TestHTTPCorpus(t *testing.T) {
	e := testEdge.Use(t)
	t.Parallel()
	for _, version := range []string{modern, legacy} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			for _, c := range corpus() {
				t.Run(c.name, func(t *testing.T) {
					key := version + " " + c.name
					body := strings.ReplaceAll(c.body, "KEY", key)
					began := time.Now()
					r := send(t, post(t, e.mcp, body, header{"MCP-Protocol-Version", version}, header{"Mcp-Method", "tools/call"}, header{"Mcp-Name", "append"}))
					if took := time.Since(began); took > time.Second+slack {
						t.Errorf("took %v", took)
					}
					switch {
					case version == legacy && c.code == params:
						c.status = 200 // the older transports have no status for it
					case version == modern && strings.HasSuffix(c.name, " params"):
						// Without a name in the body the header is wrong first of all.
						c.code, c.reason = -32020, "header_mismatch"
					}
					checkRefused(t, r, c.status, c.code, c.reason)
					if n := e.ledger.Runs(key); n != 0 {
						t.Errorf("it ran %d times", n)
					}
				})
			}
		})
	}
}

// checkRefused expects a JSON-RPC error with all that such an error carries.
func checkRefused(t *testing.T, r reply, status, code int, reason string) {
	t.Helper()
	e := r.message.Error
	if e == nil {
		t.Fatalf("no JSON-RPC error: %d %s", r.status, clip(r.body))
	}
	if r.status != status || e.Code != code || e.Data.Reason != reason || e.Data.Executed != "no" {
		t.Errorf("got %d: %v; want %d: %d (%s, executed no)", r.status, e, status, code, reason)
	}
	if e.Message == "" {
		t.Error("the error says nothing")
	}
}

// TestStdioCorpus writes every malformed message as a line, with a good call
// behind each: the process lives and answers both.
func TestStdioCorpus(t *testing.T) {
	e := testEdge.Use(t)
	t.Parallel()
	p := startPipe(t, "--nats", e.nats)
	more := []refused{
		{"open brackets", "[[[[", 0, parse, "parse_error"},
		{"carriage return inside", "{\"jsonrpc\":\r\"2.0\"} x", 0, parse, "parse_error"},
		{"NUL bytes", "\x00\x00\x00", 0, parse, "parse_error"},
		{"a line of 17 MiB", `{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("x", 17<<20) + `"}`, 0, invalid, "too_large"},
	}
	for i, c := range append(corpus(), more...) {
		t.Run(c.name, func(t *testing.T) {
			key := "stdio " + c.name
			p.write(strings.ReplaceAll(c.body, "KEY", key))
			m := p.await("the refusal", func(m message) bool { return m.Error != nil })
			if m.Error.Code != c.code || m.Error.Data.Reason != c.reason || m.Error.Data.Executed != "no" {
				t.Errorf("got %v, want %d (%s, executed no)", m.Error, c.code, c.reason)
			}
			if n := e.ledger.Runs(key); n != 0 {
				t.Errorf("it ran %d times", n)
			}
			end := ""
			if i%2 == 0 {
				end = "\r" // CRLF ends a line as well
			}
			p.write(modernBody(`"good"`, "tools/call", `"name":"echo","arguments":{"value":"x"},`, "") + end)
			if m := p.await("the good call", response(`"good"`)); m.Error != nil {
				t.Errorf("the good call behind it: %v", m.Error)
			}
			if len(p.kept) > 0 {
				t.Errorf("more came: %s", clip(p.kept[0].raw))
				p.kept = nil
			}
		})
	}
	t.Run("blank lines", func(t *testing.T) {
		p.write("\n\r\n   ")
		if m := p.call("ping", "{}"); m.Error != nil {
			t.Error(m.Error)
		}
	})
	t.Run("last line without an end", func(t *testing.T) {
		if _, err := p.stdin.Write([]byte(`{"jsonrpc":"2.0","id":"last","method":"ping"}`)); err != nil {
			t.Fatal(err)
		}
		_ = p.stdin.Close()
		if m := p.await("its answer", response(`"last"`)); m.Error != nil {
			t.Error(m.Error)
		}
		if code := p.wait(2 * time.Second); code != 0 {
			t.Errorf("exited with %d", code)
		}
	})
}
