package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bustest"
)

// TestBusOutage takes the bus away from an edge and a service, and gives it
// back at the same address: nobody is restarted.
func TestBusOutage(t *testing.T) {
	t.Parallel()
	nats := bustest.Start(t, bustest.Config{Synced: true})
	url := nats.URL
	_, edge := startEdge(t, url)
	startText(t, url, 1)
	over := startPipe(t, "--nats", url)
	over.initialize(legacy)
	readyz := func() int {
		resp, err := http.Get(strings.TrimSuffix(edge.mcp, "/mcp") + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	l := startLoad(t, edge.mcp, 2, "analyzeText", analyze)
	l.succeeds(t, 5*time.Second+slack, "calls succeed at first")

	nats.Stop()
	eventually(t, "the edge says it is not ready", func() bool { return readyz() == http.StatusServiceUnavailable })
	seen := l.count()
	eventually(t, "calls are refused meanwhile", func() bool { return l.count() > seen+50 })
	began := time.Now()
	if _, err := over.tryCall(answerTime, "tools/call", callAnalyze); err == nil || time.Since(began) > 250*time.Millisecond+slack {
		t.Errorf("stdio answered %v after %v", err, time.Since(began))
	}
	nats.Restart()
	took := l.succeeds(t, 5*time.Second+slack, "calls succeed when the bus is back")
	t.Logf("calls succeed %v after the bus is back", took.Round(time.Millisecond))
	eventually(t, "the edge says it is ready", func() bool { return readyz() == http.StatusOK })
	within(t, 5*time.Second+slack, "stdio serves again", func() bool {
		_, err := over.tryCall(answerTime, "tools/call", callAnalyze)
		return err == nil
	})
	r := judge(l.finish())
	t.Log(r)
	// Calls that were on their way when the bus went are lost, and say so; the rest never left the
	// edge.
	allow(t, r, time.Second, "unavailable/no", "peer_lost/unknown", "unknown_tool/no")
}
