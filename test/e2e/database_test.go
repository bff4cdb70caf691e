package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/database/databasetest"
	"github.com/busbar-mcp/busbar/test/testservice"

	"github.com/busbar-mcp/busbar/libs/bustest"
)

// outageTime is how long Postgres is away: BUSBAR_TEST_OUTAGE, such as 60s.
func outageTime(t *testing.T) time.Duration {
	t.Helper()
	s := os.Getenv("BUSBAR_TEST_OUTAGE")
	if s == "" {
		return 3 * time.Second
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// keyed is a call that can be told from all others.
type keyed struct {
	tool, key string
	call
}

// unrecorded says that the call was refused because the trail could not take its beginning: on
// a machine that stands still for a second that may be, whatever Postgres does.
func (k keyed) unrecorded() bool {
	return k.message.Error != nil && k.message.Error.Data.Reason == "unavailable" && strings.HasPrefix(k.message.Error.Message, "the audit trail cannot be written")
}

// shoot calls a tool every few milliseconds, each time with a key of its own,
// until done is closed.
func shoot(t *testing.T, url, tool, arguments string, done <-chan struct{}, ended func(keyed)) {
	for n := 0; ; n++ {
		select {
		case <-done:
			return
		case <-time.After(25 * time.Millisecond):
		}
		key := fmt.Sprintf("test:%s/%d", tool, n)
		r := modernCall(t, url, fmt.Sprint(n), tool, fmt.Sprintf(arguments, key))
		began := time.Now()
		got, err := trySend(r)
		ended(keyed{tool, key, call{began, time.Since(began), got.message, err}})
	}
}

// TestPostgresOutage takes Postgres away from a whole Busbar and gives it back:
// what needs it is refused at once and did not run, everything else goes on, and
// in the end every call is in the audit trail, which verifies.
func TestPostgresOutage(t *testing.T) {
	t.Parallel()
	outage := outageTime(t)
	server := databasetest.Own(t, "fsync=on")
	p, dev := startDev(t, "--database-url", server.URL())
	ledger := &testservice.Ledger{}
	serve(t, dev.nats, testservice.New(ledger))
	eventually(t, "the test service is there", func() bool {
		m := send(t, modernCall(t, dev.mcp, "1", "echo", `{"value":"first"}`)).message
		return m.Error == nil && !m.isError()
	})

	var mu sync.Mutex
	var calls []keyed
	done := make(chan struct{})
	var wg sync.WaitGroup
	for tool, arguments := range map[string]string{
		"append":          `{"key":%q}`,               // an effect, without the database
		"echo":            `{"value":%q}`,             // none
		"create_resource": `{"uri":%q,"text":"text"}`, // an effect in the database
	} {
		wg.Go(func() {
			shoot(t, dev.mcp, tool, arguments, done, func(k keyed) {
				mu.Lock()
				calls = append(calls, k)
				mu.Unlock()
			})
		})
	}
	stop := sync.OnceFunc(func() { close(done); wg.Wait() })
	defer stop()
	// succeed waits until calls that begin from now on succeed, one of each tool.
	succeed := func(what string, tools ...string) time.Duration {
		now := time.Now()
		return within(t, bustest.Patience, what, func() bool {
			mu.Lock()
			defer mu.Unlock()
			good := map[string]bool{}
			for _, k := range calls {
				if k.began.After(now) && k.failure() == nil {
					good[k.tool] = true
				}
			}
			for _, tool := range tools {
				if !good[tool] {
					return false
				}
			}
			return true
		})
	}
	succeed("all calls succeed at first", "append", "echo", "create_resource")

	server.Kill()
	gone := time.Now()
	for time.Since(gone) < outage && !t.Failed() {
		succeed("calls that do not need Postgres succeed without it", "append", "echo")
		time.Sleep(min(time.Second, outage/10)) // the outage, not a condition
	}
	// The write that was at work when it went may take all that time.
	eventually(t, "a write is refused", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return slices.ContainsFunc(calls, func(k keyed) bool {
			return k.tool == "create_resource" && k.message.Error != nil && k.message.Error.Data.Executed == "no" && !k.unrecorded()
		})
	})
	back := time.Now()
	server.Start(t)
	took := succeed("calls that need Postgres succeed when it is back", "create_resource")
	t.Logf("Postgres was away for %v, writes succeed %v after it accepts", back.Sub(gone).Round(time.Millisecond), took.Round(time.Millisecond))
	stop()

	settled := within(t, 60*time.Second, "the trail has all calls", func() bool { return len(missing(t, dev, calls)) == 0 })
	t.Logf("the trail is complete %v after the last call", settled.Round(time.Millisecond))
	kinds := map[string]int{}
	var slowest time.Duration
	for _, k := range calls {
		err := k.failure()
		if err == nil {
			kinds[k.tool+" ok"]++
			if k.tool == "append" && ledger.Runs(k.key) != 1 {
				t.Errorf("%s succeeded and ran %d times", k.key, ledger.Runs(k.key))
			}
			continue
		}
		slowest = max(slowest, k.took)
		if k.unrecorded() {
			kinds[k.tool+" unrecorded"]++
			if ledger.Runs(k.key) != 0 {
				t.Errorf("%s was refused and ran", k.key)
			}
			continue
		}
		if k.message.Error == nil {
			t.Errorf("%s: %v", k.key, err)
			continue
		}
		data := k.message.Error.Data
		kinds[k.tool+" "+data.Reason+"/"+data.Executed]++
		if k.tool != "create_resource" || data.Reason != "unavailable" {
			t.Errorf("%s: %v", k.key, err)
		}
	}
	t.Logf("%d calls: %v; slowest refusal %v", len(calls), kinds, slowest.Round(time.Millisecond))
	if kinds["create_resource unavailable/no"] == 0 {
		t.Error("no write was refused: Postgres was not away")
	}
	// One call of each may have been at work when it went.
	if n := kinds["create_resource unavailable/unknown"]; n > 1 {
		t.Errorf("of %d refused writes it is not known whether they ran", n)
	}
	verify := start(t, "busbar", "audit", "verify", "--data-dir", dev.data, "--url", dev.mcp, "--timeout", "1m")
	if code := verify.wait(time.Minute); code != 0 {
		said, _ := io.ReadAll(verify.stdout)
		t.Errorf("the trail does not verify: %s", said)
	}
	if lost := p.stderr.String(); strings.Contains(lost, "dropped") {
		t.Errorf("events were dropped: %s", lost)
	}
}

// missing are the calls of which the trail does not have what it should: once
// that it began, if it may have had an effect, and once how it ended.
func missing(t *testing.T, dev ready, calls []keyed) []string {
	t.Helper()
	export := start(t, "busbar", "audit", "export", "--url", dev.mcp, "--data-dir", dev.data, "--timeout", "1m")
	events := map[string]int{} // by key and outcome
	lines := bufio.NewScanner(export.stdout)
	for lines.Scan() {
		var e struct {
			Outcome   string            `json:"outcome"`
			Arguments map[string]string `json:"arguments"`
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			continue // a call of another shape
		}
		for key := range maps.Values(e.Arguments) {
			events[key+" "+e.Outcome]++
		}
	}
	if code := export.wait(time.Minute); code != 0 {
		return []string{"the export failed"}
	}
	var gone []string
	for _, k := range calls {
		if k.unrecorded() {
			continue // those are one event together
		}
		outcome := "ok"
		if k.message.Error != nil {
			outcome = k.message.Error.Data.Reason
		}
		began := 1
		if k.tool == "echo" {
			began = 0
		}
		if events[k.key+" "+outcome] != 1 || events[k.key+" begun"] != began {
			gone = append(gone, k.key)
		}
	}
	return gone
}

// TestAuditRetention starts a Busbar again that shall keep nothing for long.
func TestAuditRetention(t *testing.T) {
	t.Parallel()
	p, dev := startDev(t)
	send(t, modernCall(t, dev.mcp, "1", "analyzeText", analyze))
	kept := func(dev ready) int {
		export := start(t, "busbar", "audit", "export", "--url", dev.mcp, "--data-dir", dev.data)
		out, _ := io.ReadAll(export.stdout)
		if code := export.wait(answerTime); code != 0 {
			return -1
		}
		return strings.Count(string(out), `"analyzeText"`)
	}
	eventually(t, "the call is in the trail", func() bool { return kept(dev) == 1 })
	p.signal(syscall.SIGTERM)
	p.wait(answerTime)
	_, again := startDev(t, "--data-dir", dev.data, "--audit-retention", "1ms")
	eventually(t, "the call is removed", func() bool { return kept(again) == 0 })
}
