package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bustest"
)

// TestCrowd makes hundreds of modern and legacy clients, all with the same ids and progress tokens,
// call through two edges at once. Each gets its own answers: SDK servers that shared a transport
// have sent one client's answers to another (CVE-2026-25536).
func TestCrowd(t *testing.T) {
	t.Parallel()
	f := startFleet(t)
	_, url := startProxy(t, true, f.url1, f.url2)
	const clients, calls, atOnce = 300, 4, 64
	http1 := &http.Transport{MaxIdleConnsPerHost: atOnce, MaxConnsPerHost: atOnce}
	defer http1.CloseIdleConnections()
	over := &http.Client{Transport: http1, Timeout: bustest.Patience}

	// everybody does something for each client, so many of them at a time.
	everybody := func(do func(client int) error) {
		t.Helper()
		jobs := make(chan int)
		var workers sync.WaitGroup
		for range atOnce {
			workers.Go(func() {
				for client := range jobs {
					if err := do(client); err != nil {
						t.Errorf("client %d: %v", client, err)
					}
				}
			})
		}
		for client := range clients {
			jobs <- client
		}
		close(jobs)
		workers.Wait()
	}
	began := time.Now()
	sessions := make([]string, clients) // of the legacy half
	everybody(func(client int) error {
		if client%2 == 0 {
			return nil
		}
		got, err := trySendOver(over, post(t, url, initialize))
		for err == nil && bustest.StoodStill(string(got.body)) {
			got, err = trySendOver(over, post(t, url, initialize))
		}
		if err != nil {
			return err
		}
		if sessions[client] = got.header.Get("Mcp-Session-Id"); got.message.Error != nil || sessions[client] == "" {
			return fmt.Errorf("initialize answered %s", clip(got.body))
		}
		return nil
	})
	if t.Failed() {
		return
	}
	for id := range calls {
		everybody(func(client int) error {
			nonce := fmt.Sprintf("client %d, call %d", client, id)
			body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"repeat","arguments":{"value":%q},"_meta":{"progressToken":"p"}}}`, id, nonce)
			headers := []header{{"MCP-Protocol-Version", legacy}, {"Mcp-Session-Id", sessions[client]}}
			if client%2 == 0 {
				members := fmt.Sprintf(`"name":"repeat","arguments":{"value":%q},`, nonce)
				body = modernBody(fmt.Sprint(id), "tools/call", members, `"progressToken":"p","io.modelcontextprotocol/logLevel":"info",`)
				headers = modernHeaders("tools/call", "repeat")
			}
			got, err := trySendOver(over, post(t, url, body, headers...))
			// A machine that stands still for two seconds loses the service, or NATS: the tool only reads.
			for range 5 {
				if e := got.message.Error; err != nil || e == nil || e.Data.Reason != "peer_lost" && e.Data.Reason != "unavailable" {
					break
				}
				got, err = trySendOver(over, post(t, url, body, headers...))
			}
			if err != nil {
				return err
			}
			return own(got, fmt.Sprint(id), nonce)
		})
	}
	t.Logf("%d clients, %d calls in %v", clients, clients*calls, time.Since(began).Round(time.Millisecond))
}

// own requires an answer to be all of one client's call, and of no other.
func own(got reply, id, nonce string) error {
	if m := got.message; got.responses != 1 || m.Error != nil || string(m.ID) != id || m.text() != fmt.Sprintf(`{"value":%q}`, nonce) {
		return fmt.Errorf("%q was answered %d times, at last %s", nonce, got.responses, clip(m.raw))
	}
	seen := ""
	for _, n := range got.notifications {
		var p struct{ ProgressToken, Message, Data string }
		if err := json.Unmarshal(n.Params, &p); err != nil {
			return err
		}
		switch {
		case n.Method == "notifications/progress" && p.ProgressToken == "p" && p.Message == nonce:
			seen += "p"
		case n.Method == "notifications/message" && p.Data == nonce:
			seen += "l"
		default:
			return fmt.Errorf("%q was told %s", nonce, clip(n.raw))
		}
	}
	if seen != "plp" {
		return fmt.Errorf("%q had notifications %q", nonce, seen)
	}
	return nil
}
