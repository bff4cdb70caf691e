package doors

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"go.opentelemetry.io/otel/trace"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/database"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/libs/service/servicetest"
	"github.com/busbar-mcp/busbar/libs/tracing/otlp"
	"github.com/busbar-mcp/busbar/libs/tracing/otlp/otlptest"
)

const tracesPerSecond = 1000

type parentKey struct{}

// parentOf is the traceparent that requests over HTTP and gRPC have in a header; empty
// for none.
func parentOf(ctx context.Context) string {
	parent, _ := ctx.Value(parentKey{}).(string)
	return parent
}

// One call through any door is one trace, from the client's own span to the database.
func TestTraces(t *testing.T) {
	collector := otlptest.Start(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
	traces, err := otlp.Open(t.Context(), "1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(traces.Close)
	w := (&world{traces: traces}).start(t)
	w.store(t)

	for n, r := range doors {
		id, client := fmt.Sprintf("%032x", 0xabc0+n), fmt.Sprintf("%016x", 0xdef0+n)
		ctx, c := t.Context(), call{tool: "stored", arguments: `{"secret":"c4n4ry"}`, token: ada}
		if parent := "00-" + id + "-" + client + "-01"; slices.ContainsFunc(mcpDoors, func(d door) bool { return d.name == r.name }) {
			c.parent = parent
		} else {
			ctx = context.WithValue(ctx, parentKey{}, parent)
		}
		if o := r.call(ctx, t, w, c); o.reason != "" || o.isError || !strings.Contains(o.text+o.structured, id) {
			t.Errorf("%s: %+v; the handler shall know the trace", r.name, o)
		}
		var spans []otlptest.Span
		bustest.Eventually(t, r.name+": the whole trace", func() bool { spans = collector.Trace(id); return len(spans) >= 5 })
		parent := client
		for i, want := range []otlptest.Span{
			{Service: "edge", Name: "tools/call stored", Kind: "server"},
			{Service: "edge", Name: "chain", Kind: "internal"},
			{Service: "edge", Name: "bus stores", Kind: "client"},
			{Service: "stores", Name: "tools/call stored", Kind: "server"},
			{Service: "stores", Name: "write test", Kind: "client"},
		} {
			got := spans[i]
			if got.Service != want.Service || got.Name != want.Name || got.Kind != want.Kind || got.Parent != parent || got.Failed != "" {
				t.Errorf("%s: span %d is %+v, want %+v below %s", r.name, i, got, want, parent)
			}
			parent = got.ID
		}
		if a := spans[0].Attributes; a["busbar.door"] != r.kind || a["mcp.method.name"] != mcp.MethodToolsCall || a["gen_ai.tool.name"] != "stored" || a["gen_ai.operation.name"] != "execute_tool" || a["network.transport"] == "" {
			t.Errorf("%s: %v", r.name, a)
		}
	}

	t.Run("a tool that calls a tool", func(t *testing.T) {
		const id = "0000000000000000000000000000face"
		streamableModern(t.Context(), t, w, call{tool: "calls", arguments: "{}", token: ada, parent: "00-" + id + "-00000000000000aa-01"})
		var spans []otlptest.Span
		bustest.Eventually(t, "the trace of both tools", func() bool { spans = collector.Trace(id); return len(spans) >= 10 })
		var names []string
		for i, s := range spans {
			names = append(names, s.Service+": "+s.Name)
			if i > 0 && s.Parent != spans[i-1].ID {
				t.Errorf("%s is below %s, want %s", s.Name, s.Parent, spans[i-1].ID)
			}
		}
		if got, want := strings.Join(names, "\n"), `edge: tools/call calls
edge: chain
edge: bus stores
stores: tools/call calls
stores: bus gateway
edge: tools/call stored
edge: chain
edge: bus stores
stores: tools/call stored
stores: write test`; got != want {
			t.Errorf("%s\nwant\n%s", got, want)
		}
	})

	t.Run("failures have a reason, and nothing that a client wrote", func(t *testing.T) {
		const id = "0000000000000000000000000000fa11"
		for _, tool := range []string{"fail", "panic", "c4n4ry-tool", "private"} {
			streamableModern(t.Context(), t, w, call{tool: tool, arguments: `{"key":"c4n4ry"}`, token: ada, parent: "00-" + id + "-00000000000000aa-01"})
		}
		want := []string{"tools/call fail tool_error", "tools/call panic internal", "tools/call unknown_tool", "tools/call private forbidden"}
		var got []string
		defer func() {
			if t.Failed() {
				t.Errorf("%q", got)
			}
		}()
		bustest.Eventually(t, "a span of each failure", func() bool {
			got = nil
			for _, s := range collector.Trace(id) {
				if s.Service == "edge" && s.Kind == "server" {
					got = append(got, s.Name+" "+s.Attributes["error.type"])
				}
			}
			slices.Sort(got)
			slices.Sort(want)
			return slices.Equal(got, want)
		})
	})

	t.Run("who asks for no trace gets none", func(t *testing.T) {
		const no, yes = "0000000000000000000000000000000a", "0000000000000000000000000000000b"
		for _, parent := range []string{"00-" + no + "-00000000000000aa-00", "00-" + yes + "-00000000000000aa-01"} {
			if o := streamableModern(t.Context(), t, w, call{tool: "stored", arguments: "{}", token: ada, parent: parent}); !strings.Contains(o.text+o.structured, parent[3:35]) {
				t.Errorf("%+v: the handler shall know the trace all the same", o)
			}
		}
		bustest.Eventually(t, "the trace that was asked for", func() bool { return len(collector.Trace(yes)) >= 5 })
		if spans := collector.Trace(no); len(spans) > 0 {
			t.Errorf("%+v", spans)
		}
	})

	t.Run("without a parent, the edge begins a trace", func(t *testing.T) {
		rest(t.Context(), t, w, call{tool: "stored", arguments: "{}", token: ada})
		bustest.Eventually(t, "a trace of the edge's own", func() bool {
			return slices.ContainsFunc(collector.Spans(), func(s otlptest.Span) bool { return s.Parent == "" && s.Name == "tools/call stored" })
		})
	})

	t.Run("a message's own parent counts, and not that of its request", func(t *testing.T) {
		const id = "0000000000000000000000000000000c"
		for _, c := range []struct{ header, meta string }{{"00-" + id + "-00000000000000aa-01", ""}, {"00-" + strings.Repeat("f", 32) + "-00000000000000aa-01", "00-" + id + "-00000000000000aa-01"}} {
			streamableModern(context.WithValue(t.Context(), parentKey{}, c.header), t, w, call{tool: "stored", arguments: "{}", token: ada, parent: c.meta})
		}
		bustest.Eventually(t, "both calls in one trace", func() bool { return len(collector.Trace(id)) >= 10 })
	})

	t.Run("figures name a trace as an example", func(t *testing.T) {
		r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
		r.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
		out := httptest.NewRecorder()
		w.edges[0].MetricsHandler().ServeHTTP(out, r)
		for line := range strings.Lines(out.Body.String()) {
			if strings.HasPrefix(line, `busbar_calls_total{door="rest"`) && strings.Contains(line, `tool="stored"`) {
				_, example, _ := strings.Cut(line, `# {trace_id="`)
				if id, _, ok := strings.Cut(example, `"`); !ok || len(collector.Trace(id)) == 0 {
					t.Errorf("%s", line)
				}
				return
			}
		}
		t.Error("no figure of the calls")
	})

	traces.Close()
	if collector.Holds("c4n4ry") {
		t.Error("what a client wrote is in the spans")
	}
}

// store adds a service whose tool "stored" writes to a database, and whose tool "calls"
// calls that one.
func (w *world) store(t *testing.T) {
	t.Helper()
	db, err := database.Open(t.Context(), database.Config{File: filepath.Join(t.TempDir(), "stored.db"), Owner: "test", Holds: "things", Migrations: fstest.MapFS{
		"both/00001_thing.sql": {Data: []byte("-- +goose Up\nCREATE TABLE thing (name text);\n")},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	s := service.New("stores", service.WithLogger(bustest.Logger(t)))
	service.AddTool(s, service.Tool{Name: "stored", InputSchema: []byte(`{"type":"object"}`)}, func(ctx context.Context, _ *service.Call, in []byte) (*service.Result, error) {
		err := db.Write(ctx, func(ctx context.Context, tx database.Tx) error {
			_, err := tx.Exec(ctx, "INSERT INTO thing VALUES ($1)", string(in))
			return err
		})
		return &service.Result{Content: []mcp.Content{mcp.Text(trace.SpanContextFromContext(ctx).TraceID().String())}}, err
	})
	service.AddTool(s, service.Tool{Name: "calls", CallsTools: true}, func(ctx context.Context, call *service.Call, _ struct{}) (*service.ToolResult, error) {
		return call.CallTool(ctx, service.ToolCall{Name: "stored", Arguments: map[string]string{}})
	})
	conn := bustest.Connect(t, w.nats)
	conn.Trace(w.traces.Service("stores"))
	servicetest.Join(t, conn, s)
	for _, e := range w.edges {
		if err := e.Await(t.Context(), "stores"); err != nil {
			t.Fatal(err)
		}
	}
}
