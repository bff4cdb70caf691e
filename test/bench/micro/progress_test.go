package micro

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/busbar-mcp/busbar/services/edge"
)

// report is a tool that says this often how far it is.
const (
	report  = "report"
	reports = 10
)

// BenchmarkProgress measures the cost of keeping an answer for a client that may come back for it.
// It makes the same call, with ten reports of progress, as a client of 2025-11-25, for which
// JetStream keeps the frames, and as a client of 2026-07-28, which cannot come back.
func BenchmarkProgress(b *testing.B) {
	const message = `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"report","arguments":{"text":"x"},"_meta":{"progressToken":%d%s}}}`
	for _, c := range []struct {
		name, meta string
		header     map[string]string
	}{
		{"kept", "", map[string]string{"Mcp-Protocol-Version": "2025-11-25"}},
		{"passed on", `,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}`,
			map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": report}},
	} {
		b.Run(c.name, func(b *testing.B) {
			url := "http://" + startBusbar(b, edge.Audit{Off: true}).String() + "/mcp"
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections}}
			post := func(body, session string) (*http.Response, string, error) {
				r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, url, strings.NewReader(body))
				if err != nil {
					return nil, "", err
				}
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set("Accept", "application/json, text/event-stream")
				if strings.Contains(body, report) {
					for name, v := range c.header {
						r.Header.Set(name, v)
					}
				}
				if session != "" {
					r.Header.Set("Mcp-Session-Id", session)
				}
				resp, err := client.Do(r)
				if err != nil {
					return nil, "", err
				}
				defer resp.Body.Close()
				answer, err := io.ReadAll(resp.Body)
				return resp, string(answer), err
			}
			session := func() string {
				if c.meta != "" {
					return ""
				}
				resp, answer, err := post(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`, "")
				if err != nil || resp.Header.Get("Mcp-Session-Id") == "" {
					b.Fatal(err, answer)
				}
				return resp.Header.Get("Mcp-Session-Id")
			}
			var left atomic.Int64
			left.Store(int64(b.N))
			sessions := make([]string, 8)
			for i := range sessions {
				sessions[i] = session()
			}
			b.ResetTimer()
			before := processorTime(b)
			var all sync.WaitGroup
			for _, s := range sessions {
				all.Go(func() {
					for n := left.Add(-1); n >= 0; n = left.Add(-1) {
						_, answer, err := post(fmt.Sprintf(message, n+1, n+1, c.meta), s)
						if err != nil || strings.Count(answer, "notifications/progress") < reports {
							b.Errorf("%v %s", err, answer)
							return
						}
					}
				})
			}
			all.Wait()
			b.ReportMetric(float64((processorTime(b)-before).Microseconds())/float64(b.N), "cpu-µs/op")
		})
	}
}
