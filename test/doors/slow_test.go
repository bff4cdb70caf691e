package doors

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// reliability-security.md 28: clients that send a byte a second are cut, after
// five seconds of headers or ten of a body, and nobody else waits for them.
func TestSlowClients(t *testing.T) {
	t.Parallel()
	const each, patience = 200, 30 * time.Second
	w := newWorld(t)
	begun := time.Now()
	var all sync.WaitGroup
	for name, head := range map[string]string{
		"headers": "POST /tools/look HTTP/1.1\r\nHost: " + w.host + "\r\nX-Slow: ",
		"a body":  "POST /tools/look HTTP/1.1\r\nHost: " + w.host + "\r\nAuthorization: Bearer ada\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n",
	} {
		for range each {
			c, err := net.Dial("tcp", w.host)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close() })
			_ = c.SetDeadline(begun.Add(patience))
			if _, err := io.WriteString(c, head); err != nil {
				t.Fatal(err)
			}
			all.Go(func() {
				drip := time.NewTicker(time.Second)
				defer drip.Stop()
				cut := make(chan error, 1)
				go func() {
					_, err := io.Copy(io.Discard, c)
					cut <- err
				}()
				for {
					select {
					case err := <-cut:
						if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
							t.Errorf("slow %s: not cut after %v", name, patience)
						}
						return
					case <-drip.C:
						_, _ = io.WriteString(c, " ")
					}
				}
			})
		}
	}
	// Everybody else is served meanwhile.
	resp, _ := w.raw(t, "POST /tools/look HTTP/1.1\r\nHost: "+w.host+"\r\nAuthorization: Bearer ada\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: 14\r\n\r\n{\"key\":\"fast\"}")
	if resp.StatusCode != 200 {
		t.Errorf("a fast client: %d", resp.StatusCode)
	}
	all.Wait()
	t.Logf("all were cut after %v", time.Since(begun).Round(time.Millisecond))
}
