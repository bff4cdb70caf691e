package seeds

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/test/caller"
)

// door sends MCP's messages as they are written and returns the answers.
type door interface {
	// send returns the answer to a request, with the notifications before it; nothing
	// for a notification.
	send(t *testing.T, body string) (answer []byte, notes [][]byte)
}

// idOf is the id of a message as written, empty if it has none.
func idOf(body []byte) string {
	var m struct {
		ID json.RawMessage `json:"id"`
	}
	_ = json.Unmarshal(body, &m)
	return string(m.ID)
}

func isNotification(body []byte) bool {
	var m struct{ Method string }
	return json.Unmarshal(body, &m) == nil && m.Method != ""
}

// streamable is Streamable HTTP: the client names session and version once it has
// them.
type streamable struct{ url, session, version string }

func (d *streamable) send(t *testing.T, body string) (answer []byte, notes [][]byte) {
	t.Helper()
	h := map[string]string{"Accept": caller.BothForms}
	if d.session != "" {
		h["Mcp-Session-Id"], h["MCP-Protocol-Version"] = d.session, d.version
	}
	resp, got := exchange(t, http.MethodPost, d.url+"/mcp", body, h)
	bodies := [][]byte{got}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		bodies = events(got)
	}
	if idOf([]byte(body)) == "" && json.Valid([]byte(body)) {
		if resp.StatusCode != http.StatusAccepted || len(got) > 0 {
			t.Errorf("a notification was answered with %s %q", resp.Status, got)
		}
		return nil, nil
	}
	for _, b := range bodies {
		if isNotification(b) {
			notes = append(notes, b)
			continue
		}
		answer = b
	}
	if id := resp.Header.Get("Mcp-Session-Id"); id != "" {
		var m struct {
			Result struct{ ProtocolVersion string }
		}
		_ = json.Unmarshal(answer, &m)
		d.session, d.version = id, m.Result.ProtocolVersion
	}
	return answer, notes
}

// exchange makes a request and reads its answer.
func exchange(t *testing.T, method, url, body string, header map[string]string) (resp *http.Response, got []byte) {
	t.Helper()
	bustest.Eventually(t, "NATS is heard", func() bool {
		resp, got = exchangeOnce(t, method, url, body, header)
		return !bustest.StoodStill(string(got))
	})
	return resp, got
}

func exchangeOnce(t *testing.T, method, url, body string, header map[string]string) (*http.Response, []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), answerTime)
	defer cancel()
	var headers []string
	for name, v := range header {
		headers = append(headers, name, v)
	}
	resp, got, err := caller.Request(ctx, method, strings.TrimPrefix(url, "http://"), "", body, headers...)
	if err != nil {
		t.Fatal(err)
	}
	return resp, got
}

// events are the data of server-sent events, but for those that only have an id.
func events(body []byte) (all [][]byte) {
	for line := range bytes.Lines(body) {
		if data, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("data: ")); ok && len(data) > 0 {
			all = append(all, data)
		}
	}
	return all
}

// inbox takes what comes on a connection.
type inbox struct{ messages chan []byte }

// await returns the next message that fits, and those before it.
func (b inbox) await(t *testing.T, what string, fits func([]byte) bool) (found []byte, before [][]byte) {
	t.Helper()
	deadline := time.After(answerTime)
	for {
		select {
		case m, open := <-b.messages:
			if !open {
				t.Fatalf("the connection ended before %s", what)
			}
			if fits(m) {
				return m, before
			}
			before = append(before, m)
		case <-deadline:
			t.Fatalf("no %s in %v; %d other messages", what, answerTime, len(before))
		}
	}
}

func (b inbox) answer(t *testing.T, body string) (answer []byte, notes [][]byte) {
	t.Helper()
	id := idOf([]byte(body))
	if id == "" && json.Valid([]byte(body)) {
		return nil, nil
	}
	return b.await(t, "an answer to "+body, func(m []byte) bool { return !isNotification(m) && (idOf(m) == id || idOf(m) == "null") })
}

func (b inbox) notice(t *testing.T, method string) []byte {
	t.Helper()
	m, _ := b.await(t, method, func(m []byte) bool { return strings.Contains(string(m), `"method":"`+method+`"`) })
	return m
}

// pipe is stdio: the program as a client's own process.
type pipe struct {
	inbox
	in io.Writer
}

func openPipe(t *testing.T, env []string, args ...string) *pipe {
	t.Helper()
	cmd := command(env, append([]string{"stdio"}, args...)...)
	cmd.Stderr = &bytes.Buffer{}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	p := &pipe{inbox{make(chan []byte, 1024)}, in}
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(p.messages)
		s := bufio.NewScanner(out)
		s.Buffer(nil, 16<<20)
		for s.Scan() {
			p.messages <- bytes.Clone(s.Bytes())
		}
	}()
	t.Cleanup(func() { // as the seed draws it: the client ends the process
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("busbar stdio ended: %v\n%s", err, cmd.Stderr)
		}
		<-read
		_ = out.Close()
	})
	return p
}

func (p *pipe) send(t *testing.T, body string) (answer []byte, notes [][]byte) {
	t.Helper()
	bustest.Eventually(t, "NATS is heard", func() bool {
		if _, err := io.WriteString(p.in, strings.ReplaceAll(body, "\n", " ")+"\n"); err != nil {
			t.Fatal(err)
		}
		answer, notes = p.answer(t, body)
		return !bustest.StoodStill(string(answer))
	})
	return answer, notes
}

// stream is HTTP with SSE: messages are posted, and answered on a stream.
type stream struct {
	inbox
	url string
}

func openStream(t *testing.T, url string) *stream {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/sse", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(resp, err)
	}
	s := &stream{inbox{make(chan []byte, 1024)}, url}
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(s.messages)
		lines := bufio.NewScanner(resp.Body)
		lines.Buffer(nil, 16<<20)
		for lines.Scan() {
			if data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: ")); ok {
				s.messages <- bytes.Clone(data)
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-read
		_ = resp.Body.Close()
	})
	endpoint, _ := s.await(t, "the endpoint", func([]byte) bool { return true })
	s.url += string(endpoint)
	return s
}

func (s *stream) send(t *testing.T, body string) (answer []byte, notes [][]byte) {
	t.Helper()
	bustest.Eventually(t, "NATS is heard", func() bool {
		refused, got := s.post(t, body)
		if answer, notes = got, nil; !refused {
			answer, notes = s.answer(t, body)
		}
		return !bustest.StoodStill(string(answer))
	})
	return answer, notes
}

// post sends a message. Text that is not a message is refused at once.
func (s *stream) post(t *testing.T, body string) (refused bool, answer []byte) {
	t.Helper()
	resp, got := exchange(t, http.MethodPost, s.url, body, nil)
	return resp.StatusCode != http.StatusAccepted, got
}

// call is one request over HTTP.
func call(t *testing.T, base, method, path, body string) (status int, answer []byte) {
	t.Helper()
	resp, got := exchange(t, method, base+path, body, nil)
	return resp.StatusCode, got
}
