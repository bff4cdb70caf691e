package streamable_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

// sink is a client that reads everything.
type sink struct {
	header http.Header
	status int
	bytes  int
}

func (s *sink) Header() http.Header { return s.header }
func (s *sink) WriteHeader(c int)   { s.status = c }
func (s *sink) Write(b []byte) (int, error) {
	s.bytes += len(b)
	return len(b), nil
}

// BenchmarkPost is the cost of the door itself (with a list, which stays in the edge),
// and of a call over the bus and back, without HTTP's own part.
func BenchmarkPost(b *testing.B) {
	w := start(b)
	h := w.HTTP.Config.Handler
	for name, c := range map[string]struct {
		method, tool, body string
	}{
		"list":        {mcp.MethodPromptsList, "", edgetest.Request("1", mcp.MethodPromptsList, "")},
		"call":        {mcp.MethodToolsCall, "echo", edgetest.Call("1", "echo", `{"a":1}`)},
		"call 64 KiB": {mcp.MethodToolsCall, "echo", edgetest.Call("1", "echo", `{"a":"`+strings.Repeat("x", 64<<10)+`"}`)},
	} {
		b.Run(name, func(b *testing.B) {
			r := w.Request(b, http.MethodPost, modern(c.method, c.tool), strings.NewReader(c.body))
			r.Host = "localhost"
			out := &sink{header: http.Header{}}
			b.SetBytes(int64(len(c.body)))
			b.ReportAllocs()
			for b.Loop() {
				r.Body = io.NopCloser(strings.NewReader(c.body))
				if h.ServeHTTP(out, r); out.status != http.StatusOK {
					b.Fatal(out.status)
				}
			}
		})
	}
}
