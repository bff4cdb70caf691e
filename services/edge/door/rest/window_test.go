package rest_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bustest"
)

// A batch may be longer than memory: while its client does not read, the edge takes only
// as much of it as runs and as connections buffer.
func TestBatchWindow(t *testing.T) {
	t.Parallel()
	const n, size = 600, 16 << 10
	w := start(t)
	transport := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err == nil {
			small(c)
		}
		return c, err
	}}
	defer transport.CloseIdleConnections()
	in, out := io.Pipe()
	var sent atomic.Int64
	go func() {
		padding := strings.Repeat("x", size)
		for i := range n {
			m, err := fmt.Fprintf(out, "{\"name\":\"echo\",\"parameters\":{\"i\":%d,\"padding\":\"%s\"}}\n", i, padding)
			sent.Add(int64(m))
			if err != nil {
				return
			}
		}
		_ = out.Close()
	}()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url+"/tools:batch", in)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-ndjson")
	resp, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()

	before, since := int64(-1), time.Now()
	bustest.Eventually(t, "nothing more is taken", func() bool {
		if now := sent.Load(); now != before {
			before, since = now, time.Now()
		}
		return time.Since(since) > 500*time.Millisecond
	})
	if taken := sent.Load(); taken > n*size/3 {
		t.Errorf("%d KiB of %d were taken while nothing was read", taken>>10, n*size>>10)
	}
	results := bufio.NewReaderSize(resp.Body, 64<<10)
	count := 0
	for {
		line, err := results.ReadString('\n')
		if strings.Contains(line, `"is_error":false`) {
			count++
		}
		if err != nil {
			if err != io.EOF {
				t.Errorf("the answer ends with %v", err)
			}
			break
		}
	}
	if count != n {
		t.Errorf("%d results of %d calls", count, n)
	}
}

// small gives a connection small buffers.
func small(c net.Conn) {
	tcp := c.(*net.TCPConn)
	_ = tcp.SetReadBuffer(64 << 10)
	_ = tcp.SetWriteBuffer(64 << 10)
}
