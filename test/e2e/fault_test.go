package e2e

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/test/testservice"
)

const analyze = `{"text":"One bus. Many circuits."}`

// startText runs the text service as its own process and waits until it is
// one of n.
func startText(t testing.TB, nats string, n int) *process {
	t.Helper()
	p := start(t, "busbar", "text", "--nats", nats)
	awaitInstances(t, nats, "text", n)
	return p
}

// awaitAnalyze waits until an edge knows the tool that loads call: it may learn of a
// service later than the test does.
func awaitAnalyze(t testing.TB, url string) {
	t.Helper()
	eventually(t, "the edge has the tool", func() bool {
		return send(t, modernCall(t, url, "1", "analyzeText", analyze)).message.Error == nil
	})
}

// TestRollingRestart replaces the instances of a service one by one: no call
// fails.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	nats := bustest.Server(t)
	_, edge := startEdge(t, nats)
	instances := []*process{startText(t, nats, 1), startText(t, nats, 2)}
	awaitAnalyze(t, edge.mcp)
	l := startLoad(t, edge.mcp, 4, "analyzeText", analyze)
	l.succeeds(t, 5*time.Second+slack, "calls succeed at first")
	for n := range 6 {
		i := n % 2
		instances[i].signal(syscall.SIGTERM)
		if code := instances[i].wait(5 * time.Second); code != 0 {
			t.Errorf("text exited with %d", code)
		}
		instances[i] = startText(t, nats, 2)
	}
	r := judge(l.finish())
	t.Log(r)
	allow(t, r, 2*time.Second)
}

// slack is for a machine that is busy with other tests.
const slack = 6 * time.Second

// allow fails the test for calls that took too long, and for failures of other
// kinds than those listed.
func allow(t testing.TB, r report, longest time.Duration, fine ...string) {
	t.Helper()
	if r.slowest > longest+slack {
		t.Errorf("a call took %v", r.slowest)
	}
	if r.other != nil {
		t.Errorf("a call failed without a JSON-RPC error: %v", r.other)
	}
	allowed := map[string]bool{}
	for _, k := range fine {
		allowed[k] = true
	}
	for k, n := range r.kinds {
		if !allowed[k] {
			t.Errorf("%d calls failed as %s", n, k)
		}
	}
}

// TestCallInFlight stops the service, or the edge, that has a call in flight.
func TestCallInFlight(t *testing.T) {
	t.Parallel()
	for _, victim := range []string{"service", "edge"} {
		for _, way := range []struct {
			name    string
			signals int
			// ms is how long the call takes: one that is over lets go what the second signal ends.
			ms int
		}{{"first signal", 1, 1500}, {"second signal", 2, 20_000}} {
			t.Run(victim+" "+way.name, func(t *testing.T) {
				t.Parallel()
				nats := bustest.Server(t)
				edgeProcess, edge := startEdge(t, nats)
				stopped := edgeProcess
				if victim == "service" {
					stopped = start(t, "testservice", "--nats", nats)
				} else {
					serve(t, nats, testservice.New(&testservice.Ledger{}))
				}
				awaitInstances(t, nats, "testservice", 1)
				eventually(t, "the tool is there", func() bool {
					return send(t, modernCall(t, edge.mcp, "1", "echo", `{"value":"x"}`)).message.Error == nil
				})
				done := make(chan call, 1)
				body := modernBody("1", "tools/call", fmt.Sprintf(`"name":"slow","arguments":{"ms":%d,"steps":%d},`, way.ms, way.ms/100), `"progressToken":1,`)
				stream := post(t, edge.mcp, body, modernHeaders("tools/call", "slow")...)
				started := startStream(t, stream, done)
				await(t, "the call runs", started)
				stopped.signal(syscall.SIGTERM)
				if way.signals == 2 {
					// The first one has been taken when the listener, or the service, is gone.
					eventually(t, "the first signal is taken", func() bool {
						r, err := trySend(modernCall(t, edge.mcp, "2", "echo", `{"value":"x"}`))
						return err != nil || r.message.Error != nil
					})
					began := time.Now()
					stopped.signal(syscall.SIGTERM)
					if code := stopped.wait(2 * time.Second); code != 143 {
						t.Errorf("exited with %d after the second signal", code)
					}
					if took := time.Since(began); took > 500*time.Millisecond+slack {
						t.Errorf("took %v to exit", took)
					}
					return
				}
				c := await(t, "the call ends", done)
				if err := c.failure(); err != nil {
					t.Errorf("the call in flight was lost: %v", err)
				}
				if code := stopped.wait(5 * time.Second); code != 0 {
					t.Errorf("exited with %d", code)
				}
			})
		}
	}
}

// TestKilledInFlight kills the service that has a call in flight which must
// not be repeated: the caller hears soon that nobody knows what became of it.
func TestKilledInFlight(t *testing.T) {
	t.Parallel()
	nats := bustest.Server(t)
	_, edge := startEdge(t, nats)
	victim := start(t, "testservice", "--nats", nats)
	awaitInstances(t, nats, "testservice", 1)
	eventually(t, "the tool is there", func() bool {
		return send(t, modernCall(t, edge.mcp, "1", "echo", `{"value":"x"}`)).message.Error == nil
	})
	done := make(chan call, 1)
	body := modernBody("1", "tools/call", `"name":"slow","arguments":{"ms":20000,"steps":200},`, `"progressToken":1,`)
	await(t, "the call runs", startStream(t, post(t, edge.mcp, body, modernHeaders("tools/call", "slow")...), done))
	began := time.Now()
	victim.kill()
	c := await(t, "the call ends", done)
	if took := time.Since(began); took > time.Second+slack {
		t.Errorf("took %v", took)
	}
	if e := c.message.Error; e == nil || e.Code != 1504 || e.Data.Reason != "peer_lost" || e.Data.Executed != "unknown" {
		t.Errorf("ended as %v", c.failure())
	}
}

// modernBody is a request of 2026-07-28; members and meta end with a comma, or
// are empty.
func modernBody(id, method, members, meta string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{%s"_meta":{%s"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"e2e","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`,
		id, method, members, meta)
}

// TestToolExecutionTimeout is seed 004's: -32000 with its words, in the versions that
// leave the code open.
func TestToolExecutionTimeout(t *testing.T) {
	t.Parallel()
	p := startPipe(t, "--nats", startTestEdge(t).nats)
	p.initialize(legacy)
	m := p.call("tools/call", `{"name":"stuck","arguments":{}}`)
	if m.Error == nil || m.Error.Code != -32000 || !strings.Contains(m.Error.Message, "Tool execution timeout") || m.Error.Data.Reason != "deadline_exceeded" {
		t.Errorf("%s", m.raw)
	}
}
