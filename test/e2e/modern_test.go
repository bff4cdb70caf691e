package e2e

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bustest"
)

// modernHeaders are those that a request of 2026-07-28 needs.
func modernHeaders(method, name string) []header {
	h := []header{{"MCP-Protocol-Version", modern}, {"Mcp-Method", method}}
	if name != "" {
		h = append(h, header{"Mcp-Name", name})
	}
	return h
}

// modernCall is a tools/call of 2026-07-28.
func modernCall(t testing.TB, url, id, tool, arguments string) *http.Request {
	t.Helper()
	members := fmt.Sprintf(`"name":%s,"arguments":%s,`, quoted(tool), arguments)
	return post(t, url, modernBody(id, "tools/call", members, ""), modernHeaders("tools/call", tool)...)
}

// startStream makes a request that is answered with a stream. started has a value once the first
// notification is there, done when the response is.
func startStream(t testing.TB, r *http.Request, done chan<- call) (started <-chan struct{}) {
	t.Helper()
	first := make(chan struct{}, 1)
	c := call{began: time.Now()}
	go func() {
		defer func() { done <- c }()
		resp, err := httpClient.Do(r)
		for err == nil && resp.Header.Get("Content-Type") == "application/json" { // no stream
			body, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if c.message, err = parseMessage(body); err != nil || !bustest.StoodStill(string(body)) {
				c.err = err
				return
			}
			again := r.Clone(r.Context())
			if again.Body, err = r.GetBody(); err == nil {
				resp, err = httpClient.Do(again)
			}
		}
		if c.err = err; err != nil {
			return
		}
		defer resp.Body.Close()
		lines := bufio.NewScanner(resp.Body)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
			if !ok {
				continue
			}
			m, err := parseMessage(bytes.Clone(data))
			if c.err = err; err != nil {
				return
			}
			if m.Method != "" {
				select {
				case first <- struct{}{}:
				default:
				}
				continue
			}
			c.message, c.took = m, time.Since(c.began)
			return
		}
		c.err = fmt.Errorf("the stream ended without a response: %v", lines.Err())
	}()
	return first
}
