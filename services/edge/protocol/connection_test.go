package protocol_test

import (
	"log/slog"
	"testing"

	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/protocol"
)

// said is a Sender that keeps what is sent.
type said chan []byte

func (s said) Send(m []byte) bool { s <- m; return true }
func (s said) Notify(m []byte)    { s <- m }

// stay is an open connection of anybody.
func stay(t *testing.T, s *protocol.Server) *gateway.Lease {
	t.Helper()
	open, err := s.Lease(t.Context(), "test", gateway.Credentials{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(open.Close)
	return open
}

// A defect that one request meets is that request's, not the connection's.
func TestConnectionSurvivesADefect(t *testing.T) {
	t.Parallel()
	// Without a catalogue whatever needs one panics.
	s, err := protocol.NewServer(protocol.Config{
		Info: mcp.Implementation{Name: "busbar", Version: "1"}, Gateway: gateway.New(gateway.Config{}), Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	out := make(said, 8)
	c := protocol.NewConnection(protocol.ConnectionConfig{Server: s, Out: out, Door: "test", Lease: stay(t, s)})
	for range 3 {
		c.Receive(t.Context(), []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
		c.Wait()
		answer := object(t, <-out)
		if reason := string(object(t, object(t, answer["error"])["data"])["reason"]); reason != `"internal"` || string(answer["id"]) != "1" {
			t.Errorf("answer %s", answer)
		}
		c.Receive(t.Context(), []byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
		c.Wait()
		if answer := object(t, <-out); string(answer["result"]) != "{}" {
			t.Errorf("ping is answered with %s", answer)
		}
	}
}

// FuzzConnection says arbitrary bytes. Nothing panics, and what is answered
// is a message on one line.
func FuzzConnection(f *testing.F) {
	for _, m := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"ping"}`, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26"}}`,
		`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
		`{"jsonrpc":"2.0","id":"a.b","result":{}}`, `{`, ``,
	} {
		f.Add([]byte(`{"jsonrpc":"2.0","id":0,"method":"ping"}`), []byte(m), true)
	}
	f.Fuzz(func(t *testing.T, first, second []byte, modern bool) {
		s, err := protocol.NewServer(protocol.Config{Gateway: gateway.New(gateway.Config{}), Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		out := make(said, 64)
		c := protocol.NewConnection(protocol.ConnectionConfig{Server: s, Out: out, Door: "test", Modern: modern, Lease: stay(t, s)})
		for _, m := range [][]byte{first, second} {
			if needsBus(m) {
				continue
			}
			c.Receive(t.Context(), m)
		}
		s.Close()
		c.Wait()
		close(out)
		for m := range out {
			if m[0] == '{' {
				object(t, m)
			}
		}
	})
}

// needsBus reports whether a message is taken up with a catalogue or a bus,
// which the fuzzed server has not.
func needsBus(b []byte) bool {
	m, err := mcp.Parse(b, mcp.Limits{})
	return err == nil && (m.Method == mcp.MethodInitialize || m.Kind == mcp.Response)
}
