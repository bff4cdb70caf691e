package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/test/testservice"
)

// comeback is a call of a legacy client over HTTP that comes back for the rest
// of its answer, by the rules of 2025-11-25.
type comeback struct {
	url     string
	session string
	// progressed hears of every progress notification as it comes.
	progressed func(float64)

	lastID   string
	retry    time.Duration
	progress []float64
	answers  []message
	resumed  int
}

// run makes the call and reads until the answer's connection ends.
func (c *comeback) run(t testing.TB, body string) error {
	headers := []header{{"MCP-Protocol-Version", legacy}, {"Mcp-Session-Id", c.session}}
	c.retry = 500 * time.Millisecond
	r := post(t, c.url, body, headers...)
	for deadline := time.Now().Add(bustest.Patience); time.Now().Before(deadline); {
		err := c.read(r)
		if len(c.answers) > 0 {
			return err
		}
		if c.lastID == "" && bustest.StoodStill(err.Error()) {
			r = post(t, c.url, body, headers...)
			continue
		}
		if c.lastID == "" {
			return fmt.Errorf("cut off before it could come back: %w", err)
		}
		time.Sleep(c.retry) // the protocol's own
		r = request(t, http.MethodGet, c.url, append(headers, header{"Last-Event-ID", c.lastID}, header{"Accept", "text/event-stream"})...)
		c.resumed++
	}
	return fmt.Errorf("no answer in %v", bustest.Patience)
}

// read takes everything that one connection brings. Its end is not an error once the answer is
// there.
func (c *comeback) read(r *http.Request) error {
	resp, err := httpClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if got := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || got != "text/event-stream" {
		body, _ := io.ReadAll(resp.Body)
		return fmt.Errorf("answered %s, %s: %s", resp.Status, got, clip(body))
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 16<<20)
	var id string
	var data []byte
	for lines.Scan() {
		name, value, _ := bytes.Cut(lines.Bytes(), []byte(": "))
		switch string(name) {
		case "id":
			id = string(value)
		case "retry":
			ms, err := strconv.Atoi(string(value))
			if err != nil {
				return err
			}
			c.retry = time.Duration(ms) * time.Millisecond
		case "data":
			data = bytes.Clone(value)
		case "": // the event is whole
			if id != "" {
				c.lastID = id
			}
			if len(data) > 0 {
				if err := c.take(data); err != nil {
					return err
				}
			}
			id, data = "", nil
		}
	}
	if len(c.answers) > 0 {
		return nil
	}
	return fmt.Errorf("the connection ended: %w", lines.Err())
}

func (c *comeback) take(data []byte) error {
	m, err := parseMessage(data)
	switch {
	case err != nil:
		return err
	case m.Method == "":
		c.answers = append(c.answers, m)
	case m.Method == "notifications/progress":
		var p struct{ Progress float64 }
		if err := json.Unmarshal(m.Params, &p); err != nil {
			return err
		}
		c.progress = append(c.progress, p.Progress)
		if c.progressed != nil {
			c.progressed(p.Progress)
		}
	default:
		return fmt.Errorf("unexpected: %s", clip(data))
	}
	return nil
}

// whole requires every step once, in order, and one answer.
func (c *comeback) whole(steps int) error {
	if err := complete(c.progress, steps); err != nil {
		return err
	}
	if len(c.answers) != 1 {
		return fmt.Errorf("%d answers", len(c.answers))
	}
	if m := c.answers[0]; m.Error != nil || m.isError() || m.text() != `{"runs":1}` {
		return fmt.Errorf("answered %s", clip(m.raw))
	}
	return nil
}

func complete(progress []float64, steps int) error {
	for i, p := range progress {
		if p != float64(i+1) {
			return fmt.Errorf("step %v after %v", p, progress[:i])
		}
	}
	if len(progress) != steps {
		return fmt.Errorf("%d steps of %d", len(progress), steps)
	}
	return nil
}

func slowCall(key string, ms, steps int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":0,"method":"tools/call","params":{"name":"slow","arguments":{"key":%q,"ms":%d,"steps":%d},"_meta":{"progressToken":"p"}}}`, key, ms, steps)
}

// fleet is two edges on one bus, with the test service.
type fleet struct {
	one, two   *process
	url1, url2 string
	nats       string
	ledger     *testservice.Ledger
}

func startFleet(t testing.TB) *fleet {
	t.Helper()
	f := &fleet{nats: bustest.Server(t), ledger: &testservice.Ledger{}}
	serve(t, f.nats, testservice.New(f.ledger))
	var one, two ready
	f.one, one = startEdge(t, f.nats)
	f.two, two = startEdge(t, f.nats)
	f.url1, f.url2 = one.mcp, two.mcp
	for _, url := range []string{f.url1, f.url2} {
		eventually(t, "the edge has the tools", func() bool {
			return send(t, modernCall(t, url, "1", "echo", `{"value":"x"}`)).message.Error == nil
		})
	}
	return f
}

// TestEdgeKilledInStream kills the edge that holds the official client's connection in the middle
// of a long call. The client comes back at the other edge and has it all. TestEdgesReplaced does
// so by the letter of the specification.
func TestEdgeKilledInStream(t *testing.T) {
	t.Parallel()
	f := startFleet(t)
	_, url := startProxy(t, false, f.url1, f.url2)
	c := connect(t, kind{"http", legacy}, place{url: url})
	const steps = 30
	params := &mcp.CallToolParams{Name: "slow", Arguments: map[string]any{"key": "sdk", "ms": 3000, "steps": steps}}
	params.SetProgressToken("p")
	done := make(chan error, 1)
	var result *mcp.CallToolResult
	go func() {
		var err error
		result, err = c.CallTool(t.Context(), params)
		done <- err
	}()
	var progress []float64
	for range 5 {
		progress = append(progress, await(t, "progress", c.progress).Progress)
	}
	f.one.kill()
	if err := await(t, "the result", done); err != nil || textOf(result) != `{"runs":1}` {
		t.Fatalf("%v, %v", result, err)
	}
	for len(progress) < steps {
		progress = append(progress, await(t, "progress", c.progress).Progress)
	}
	if err := complete(progress, steps); err != nil || len(c.progress) > 0 {
		t.Errorf("%v, and %d more", err, len(c.progress))
	}
	if n := f.ledger.Runs("sdk started"); n != 1 {
		t.Errorf("ran %d times", n)
	}
	// The session has moved as well.
	if got := textOf(c.call(t, "echo", map[string]any{"value": "after"})); got != `{"value":"after"}` {
		t.Errorf("then %q", got)
	}
}

// TestEdgeKilledAtQuestion kills an edge when the official client is about to answer its question.
// The other edge asks again.
func TestEdgeKilledAtQuestion(t *testing.T) {
	t.Parallel()
	f := startFleet(t)
	_, url := startProxy(t, false, f.url1, f.url2)
	names := make(chan string, 3)
	for _, name := range []string{"Ada", "Grace", "Barbara"} {
		names <- name
	}
	sdk := mcp.NewClient(&mcp.Implementation{Name: "e2e", Version: "1.0.0"}, &mcp.ClientOptions{
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			name := <-names
			if name == "Ada" {
				f.one.kill()
			}
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": name}}, nil
		},
	})
	ctx, cancel := context.WithTimeout(t.Context(), bustest.Patience)
	defer cancel()
	session, err := sdk.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: url}, &mcp.ClientSessionOptions{ProtocolVersion: legacy})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	got, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "ask"})
	if err != nil || textOf(got) != `{"value":"accept Grace"}` || len(names) != 1 {
		t.Errorf("%v, %v; %d names left", got, err, len(names))
	}
}

// TestEdgesReplaced stops an edge while clients have long calls there: it goes
// at once, and they have their results from the other.
func TestEdgesReplaced(t *testing.T) {
	t.Parallel()
	f := startFleet(t)
	_, url := startProxy(t, false, f.url1, f.url2)
	const clients, steps = 20, 30
	var began, ended sync.WaitGroup
	// Before any call: sessions are stored, and the first call must last until the last has begun.
	sessions := make([]string, clients)
	for i := range sessions {
		sessions[i] = openSession(t, url)
	}
	ctx, cancel := context.WithTimeout(t.Context(), bustest.Patience)
	defer cancel()
	calls := make([]*comeback, clients)
	errs := make([]error, clients)
	for i := range calls {
		began.Add(1)
		calls[i] = &comeback{url: url, session: sessions[i], progressed: func(p float64) {
			if p == 1 {
				began.Done()
			}
		}}
		ended.Go(func() { errs[i] = calls[i].run(t, slowCall(fmt.Sprint("client ", i), 8000, steps)) })
	}
	all := make(chan struct{})
	go func() {
		began.Wait()
		close(all)
	}()
	select {
	case <-all:
	case <-ctx.Done():
		t.Fatal("not all calls began")
	}
	stopped := time.Now()
	f.one.signal(syscall.SIGTERM)
	if code := f.one.wait(bustest.Patience); code != 0 {
		t.Errorf("the edge exited with %d", code)
	}
	if took := time.Since(stopped); took > 2*time.Second+slack {
		t.Errorf("the edge took %v to stop", took)
	} else {
		t.Logf("the edge took %v to stop", took.Round(time.Millisecond))
	}
	ended.Wait()
	for i, c := range calls {
		if errs[i] == nil {
			errs[i] = c.whole(steps)
		}
		if n := f.ledger.Runs(fmt.Sprint("client ", i, " started")); errs[i] != nil || c.resumed == 0 || n != 1 {
			t.Errorf("client %d came back %d times, ran %d times: %v", i, c.resumed, n, errs[i])
		}
	}
}
