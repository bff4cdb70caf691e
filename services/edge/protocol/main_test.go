package protocol_test

import (
	"bytes"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/leaktest"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/protocol"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// responder keeps the messages it is given.
type responder struct {
	notified, responded [][]byte
	status              int
}

func (x *responder) Notify(m []byte)  { x.notified = append(x.notified, m) }
func (x *responder) Send([]byte) bool { return false }
func (x *responder) Respond(status int, m []byte, _ error) {
	x.status, x.responded = status, append(x.responded, m)
}

func server(t testing.TB) *protocol.Server {
	t.Helper()
	s, err := protocol.NewServer(protocol.Config{Info: mcp.Implementation{Name: "busbar", Version: "1"}, Gateway: gateway.New(gateway.Config{Catalogue: &catalogue.Live{}})})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// object reads a message strictly; it must be one line.
func object(t testing.TB, b []byte) map[string]jsontext.Value {
	t.Helper()
	var o map[string]jsontext.Value
	if err := json.Unmarshal(b, &o); err != nil {
		t.Fatalf("not JSON: %v\n%q", err, b)
	}
	if bytes.ContainsAny(b, "\r\n") {
		t.Fatalf("more than one line: %q", b)
	}
	return o
}
