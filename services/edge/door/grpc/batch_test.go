package grpc_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	gatewayv1 "github.com/busbar-mcp/busbar/gen/busbar/gateway/v1"
	"github.com/busbar-mcp/busbar/libs/bustest"
)

func TestBatchTools(t *testing.T) {
	t.Parallel()
	w := start(t)
	// If NATS stands still for a second, calls are lost, and reported as such: then once
	// more.
	bustest.Eventually(t, "a batch during which NATS does not stand still", func() bool { return batch(t, w) })
}

// batch checks the outcome of many calls; it reports whether none was lost.
func batch(t *testing.T, w *world) (whole bool) {
	t.Helper()
	stream, err := w.BatchTools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const n = 2000
	go func() {
		for i := range n {
			m := &gatewayv1.BatchToolsRequest{Name: "echo", Arguments: fmt.Appendf(nil, `{"i":%d}`, i), Parallel: 16}
			if i%100 == 7 {
				m.Name = "nope"
			}
			if stream.Send(m) != nil {
				return
			}
		}
		_ = stream.CloseSend()
	}()
	whole = true
	seen := map[uint64]bool{}
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		seen[m.Index] = true
		f := m.GetFailure()
		switch {
		case m.Index%100 != 7 && f.GetReason() == "peer_lost":
			whole = false
		case m.Index%100 == 7 && (f.GetReason() != "unknown_tool" || f.GetNext() != "ListTools lists the tools"),
			m.Index%100 != 7 && !strings.Contains(string(m.GetResult().GetContent()), fmt.Sprintf(`{\"i\":%d}`, m.Index)):
			t.Errorf("%v", m)
		}
	}
	if len(seen) != n {
		t.Errorf("%d outcomes", len(seen))
	}
	return whole
}
