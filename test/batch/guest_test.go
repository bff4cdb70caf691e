package batch

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/services/batch"
	"github.com/busbar-mcp/busbar/services/edge"
	"github.com/busbar-mcp/busbar/services/edge/door"
)

// TestH4AGuestTakesNoCallsOfServices has an edge come and go, as a desktop's
// does: the calls of other edges' tools are not its, so none ends when it goes.
func TestH4AGuestTakesNoCallsOfServices(t *testing.T) {
	t.Parallel()
	w := start(t)
	s := w.connect(t, 0, "ada", nil)
	guest := func(cfg edge.Config) *edge.Edge {
		cfg.Version, cfg.Authenticator, cfg.Logger, cfg.Audit = "1", users{}, bustest.Logger(t), edge.Audit{Off: true}
		e, err := edge.New(t.Context(), bustest.Join(t, w.bus), cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(e.Close)
		return e
	}
	leaves := guest(edge.Config{Guest: true})
	close(w.release)
	const calls = `{"calls":[{"name":"slow"},{"name":"slow"},{"name":"slow"},{"name":"slow"},{"name":"slow"},{"name":"slow"},{"name":"slow"},{"name":"slow"}]}`
	for range 10 {
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			<-w.slowStarted
			leaves.Close()
		}()
		var out batch.Out
		call(t, s, "batch", calls, &out)
		if out.Succeeded != 8 {
			t.Errorf("%+v", out)
		}
		select {
		case <-gone:
		case <-time.After(time.Minute):
			t.Fatal("the guest has not left after a minute")
		}
		leaves = guest(edge.Config{Guest: true})
	}
	// Its own clients' tools call through the others.
	if err := leaves.Await(t.Context(), "svc", "batch"); err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(leaves.Handler(door.Guard{Loopback: true}))
	t.Cleanup(srv.Close)
	t.Cleanup(leaves.Server().Close)
	w.edges = append(w.edges, srv.URL)
	var out batch.Out
	if call(t, w.connect(t, 2, "ada", nil), "batch", calls, &out); out.Succeeded != 8 {
		t.Errorf("%+v", out)
	}
}
