package doors

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	gatewayv1 "github.com/busbar-mcp/busbar/gen/busbar/gateway/v1"
)

// A batch with results of twice the size that the edge accepts for one request.
const (
	sizedCalls = 16
	sizedBytes = 64 << 10
	sizedHeld  = 4 * sizedCalls / 2 * sizedBytes
)

// repeated is a call of the batch, as often as the batch has calls.
func repeated(call, separator string) string {
	return strings.Repeat(call+separator, sizedCalls-1) + call
}

// TestC2ResultsOfOneRequest has a batch ask for more than one answer may have,
// through every door that takes batches. Where the answer is one value the calls
// beyond are refused, truthfully; where each result is a message, all are there.
func TestC2ResultsOfOneRequest(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, sizedHeld)
	arguments := func(key string) string { return fmt.Sprintf(`{"bytes":%d,"key":"%s"}`, sizedBytes, key) }
	for name, c := range map[string]struct {
		// slots makes the batch, and returns the answer for each call.
		slots func(ctx context.Context, t *testing.T, arguments string) []jsontext.Value
		whole bool
	}{
		"REST": {func(ctx context.Context, t *testing.T, a string) []jsontext.Value {
			_, body := w.post(ctx, t, "/tools:batch", ada, `{"parallel":2,"calls":[`+repeated(`{"name":"big","parameters":`+a+`}`, ",")+`]}`)
			return parts(t, body, "results")
		}, false},
		"envelope": {func(ctx context.Context, t *testing.T, a string) []jsontext.Value {
			_, body := w.post(ctx, t, "/v1", ada, `[`+repeated(`{"version":"1.0","action":{"name":"big","parameters":`+a+`}}`, ",")+`]`)
			return parts(t, body)
		}, false},
		"GraphQL": {func(ctx context.Context, t *testing.T, a string) []jsontext.Value {
			_, body := w.post(ctx, t, "/graphql", ada, `{"query":"mutation($i:[ToolInput!]!){all:executeTools(parallel:2,inputs:$i){content{text} reason executed}}","variables":{"i":[`+repeated(`{"name":"big","parameters":`+a+`}`, ",")+`]}}`)
			return parts(t, body, "data", "all")
		}, false},
		"GraphQL, aliases": {func(ctx context.Context, t *testing.T, a string) []jsontext.Value {
			var aliases strings.Builder
			for i := range sizedCalls / 2 {
				fmt.Fprintf(&aliases, " a%d:executeTools(inputs:$i){content{text} reason executed}", i)
			}
			input := `{"name":"big","parameters":` + a + `}`
			_, body := w.post(ctx, t, "/graphql", ada, `{"query":"mutation($i:[ToolInput!]!){`+aliases.String()+`}","variables":{"i":[`+input+","+input+`]}}`)
			var all []jsontext.Value
			for i := range sizedCalls / 2 {
				all = append(all, parts(t, body, "data", fmt.Sprintf("a%d", i))...)
			}
			return all
		}, false},
		"MCP of 2025-03-26": {func(ctx context.Context, t *testing.T, a string) []jsontext.Value {
			var batch []string
			for i := range sizedCalls {
				batch = append(batch, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"big","arguments":%s}}`, i, a))
			}
			_, body := w.post(ctx, t, "/mcp", ada, "["+strings.Join(batch, ",")+"]", "MCP-Protocol-Version", "2025-03-26", "Accept", "application/json, text/event-stream")
			return parts(t, body)
		}, false},
		"REST, lines": {func(ctx context.Context, t *testing.T, a string) []jsontext.Value {
			// Two at once: results that are not read yet have a bound of their own.
			_, body := w.post(ctx, t, "/tools:batch", ada, `{"parallel":2,"calls":[`+repeated(`{"name":"big","parameters":`+a+`}`, ",")+`]}`, "Accept", "application/x-ndjson")
			var all []jsontext.Value
			for lines := bufio.NewReaderSize(bytes.NewReader(body), len(body)+1); ; {
				line, err := lines.ReadBytes('\n')
				if err != nil {
					return all
				}
				all = append(all, line)
			}
		}, true},
		"WebSocket": {func(ctx context.Context, t *testing.T, a string) (all []jsontext.Value) {
			w.socket(ctx, t, ada, "/ws", "busbar", func(s *socket) outcome {
				s.send(`{"type":"batch_request","id":1,"data":{"parallel":2,"calls":[` + repeated(`{"name":"big","parameters":`+a+`}`, ",") + `]}}`)
				for {
					m, ok := s.next()
					if !ok || !strings.HasPrefix(string(m), `{"type":"batch_result"`) {
						return outcome{}
					}
					all = append(all, m)
				}
			})
			return all
		}, true},
		"gRPC": {func(ctx context.Context, t *testing.T, a string) (all []jsontext.Value) {
			s, err := w.grpc.BatchTools(asAda(ctx))
			if err != nil {
				t.Fatal(err)
			}
			for range sizedCalls {
				if err := s.Send(&gatewayv1.BatchToolsRequest{Name: "big", Arguments: []byte(a), Parallel: 2}); err != nil {
					t.Fatal(err)
				}
			}
			_ = s.CloseSend()
			for {
				m, err := s.Recv()
				if err != nil {
					return all
				}
				all = append(all, jsontext.Value(m.GetResult().GetContent()))
			}
		}, true},
	} {
		t.Run(name, func(t *testing.T) { // one after the other: they share an edge
			ctx, cancel := context.WithTimeout(t.Context(), 3*answerTime)
			defer cancel()
			key := "C2 " + name
			all := c.slots(ctx, t, arguments(key))
			if len(all) != sizedCalls {
				t.Fatalf("%d outcomes of %d calls", len(all), sizedCalls)
			}
			results, ran := 0, 0
			for _, s := range all {
				head := string(s[max(0, len(s)-600):]) + string(s[:min(600, len(s))])
				switch {
				case len(s) > sizedBytes:
					results, ran = results+1, ran+1
				case !strings.Contains(head, `"result_too_large"`):
					t.Errorf("%.300s", s)
				case strings.Contains(head, `"executed":"yes"`):
					ran++
				case !strings.Contains(head, `"executed":"no"`):
					t.Errorf("%.300s", s)
				}
			}
			if want := sizedCalls / 2; c.whole && results != sizedCalls || !c.whole && (results >= want || results < want/2) {
				t.Errorf("%d results, all: %t", results, c.whole)
			}
			if n := w.ledger.Runs(key); n != ran {
				t.Errorf("%d calls ran, and %d are said to", n, ran)
			}
		})
	}
	t.Run("nothing is held after", func(t *testing.T) {
		if held := w.metric(t, "busbar_results_held_bytes"); held != "0" {
			t.Errorf("%s bytes are held", held)
		}
	})
}

// parts are the elements of an array below some members of an object.
func parts(t *testing.T, body []byte, below ...string) (all []jsontext.Value) {
	t.Helper()
	v := jsontext.Value(body)
	for _, name := range below {
		var members map[string]jsontext.Value
		if err := json.Unmarshal(v, &members); err != nil {
			t.Fatalf("%v: %.300s", err, v)
		}
		v = members[name]
	}
	if err := json.Unmarshal(v, &all); err != nil {
		t.Fatalf("%v: %.300s", err, v)
	}
	return all
}

// metric is the value that the edge tells of a metric without labels.
func (w *world) metric(t *testing.T, name string) string {
	t.Helper()
	figures := httptest.NewRecorder()
	w.edges[0].MetricsHandler().ServeHTTP(figures, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(figures.Body.String()) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(rest)
		}
	}
	t.Errorf("there is no metric %s", name)
	return ""
}
