package tenants

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bustest"
)

// stream is an answer that goes on: lines of server-sent events.
type stream struct {
	t      *testing.T
	status int
	header http.Header
	lines  chan string
	close  func()
}

// stream opens one as somebody.
func (w *world) stream(t *testing.T, at int, token, method, path, body string, headers ...string) *stream {
	t.Helper()
	var resp *http.Response
	bustest.Eventually(t, "NATS is heard", func() bool {
		resp = w.open(t, at, token, method, path, body, headers...)
		if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
			return true
		}
		a := read(t, resp)
		resp.Body = io.NopCloser(strings.NewReader(a.body))
		return !bustest.StoodStill(a.body)
	})
	s := &stream{t: t, status: resp.StatusCode, header: resp.Header, lines: make(chan string, 1000)}
	s.close = func() { _ = resp.Body.Close() }
	t.Cleanup(s.close)
	go func() {
		defer close(s.lines)
		in := bufio.NewScanner(resp.Body)
		in.Buffer(nil, 1<<20)
		for in.Scan() {
			s.lines <- in.Text()
		}
	}()
	return s
}

// until reads lines up to one with a text, and returns all of them.
func (s *stream) until(text string) string {
	s.t.Helper()
	var all strings.Builder
	late := time.After(bustest.Patience)
	for {
		select {
		case line, ok := <-s.lines:
			if !ok {
				s.t.Fatalf("the stream (%d) ended without %q: %s", s.status, text, all.String())
			}
			all.WriteString(line + "\n")
			if strings.Contains(line, text) {
				return all.String()
			}
		case <-late:
			s.t.Fatalf("no %q in %v: %s", text, bustest.Patience, all.String())
		}
	}
}

// data reads up to a message with a text, and returns the message.
func (s *stream) data(text string) answer {
	s.t.Helper()
	all := strings.TrimSpace(s.until(text))
	return answer{body: strings.TrimPrefix(all[strings.LastIndexByte(all, '\n')+1:], "data: ")}
}

// ends requires that the stream ends, and returns its messages.
func (s *stream) ends(within time.Duration) string {
	s.t.Helper()
	var all strings.Builder
	late := time.After(within)
	for {
		select {
		case line, ok := <-s.lines:
			if !ok {
				return all.String()
			}
			all.WriteString(line + "\n")
		case <-late:
			s.t.Errorf("the stream has not ended in %v: %s", within, all.String())
			return all.String()
		}
	}
}
