package batch

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/busbar-mcp/busbar/libs/bustest"
)

// connect connects the official client as a user to one of the edges.
func (w *world) connect(t *testing.T, at int, user string, options *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	var s *mcp.ClientSession
	err := bustest.Heard(t, func() (err error) {
		s, err = mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, options).Connect(t.Context(),
			&mcp.StreamableClientTransport{Endpoint: w.edges[at] + "/mcp", HTTPClient: &http.Client{Transport: as{user}}}, nil)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func call(t *testing.T, s *mcp.ClientSession, tool, arguments string, out any) *mcp.CallToolResult {
	t.Helper()
	var r *mcp.CallToolResult
	err := bustest.Heard(t, func() (err error) {
		r, err = s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: json.RawMessage(arguments)})
		if text, ok := firstText(r); ok && bustest.StoodStill(text) {
			return errors.New(text) // said of one of the calls of a batch
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(r.StructuredContent)
	if text, ok := firstText(r); ok && strings.HasPrefix(text, "{") {
		raw = []byte(text) // the same, and numbers are not doubles
	}
	if err == nil && out != nil && !r.IsError {
		err = json.Unmarshal(raw, out)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return r
}

func firstText(r *mcp.CallToolResult) (string, bool) {
	if r == nil || len(r.Content) == 0 {
		return "", false
	}
	text, ok := r.Content[0].(*mcp.TextContent)
	if !ok {
		return "", false
	}
	return text.Text, true
}

func (w *world) approve(t *testing.T, at int, user, id string) string {
	t.Helper()
	return w.post(t, at, user, "/approvals/"+id, `{"approve":true}`)
}

func (w *world) post(t *testing.T, at int, user, path, body string) string {
	t.Helper()
	var b strings.Builder
	bustest.Eventually(t, "NATS is heard", func() bool {
		resp, err := (&http.Client{Transport: as{user}}).Post(w.edges[at]+path, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		b.Reset()
		if err := resp.Write(&b); err != nil {
			t.Fatal(err)
		}
		return !bustest.StoodStill(b.String())
	})
	return b.String()
}

func receive[T any](t *testing.T, what string, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(bustest.Patience):
		t.Fatalf("did not happen in %v: %s", bustest.Patience, what)
	}
	return v
}
