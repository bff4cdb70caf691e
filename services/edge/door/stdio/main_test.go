package stdio_test

import (
	"testing"

	"github.com/busbar-mcp/busbar/libs/leaktest"
	"github.com/busbar-mcp/busbar/services/edge/door/stdio"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// client is a client that started a server as its child.
type client struct {
	*edgetest.Pipe
	svc *edgetest.Service
}

func start(t *testing.T, change func(*stdio.Config)) client {
	t.Helper()
	w := edgetest.Start(t)
	return client{w.Pipe(t, change), w.Svc}
}

// launch is start, but without a reader of the output.
func launch(t *testing.T, change func(*stdio.Config)) client {
	t.Helper()
	w := edgetest.Start(t)
	return client{w.Launch(t, change), w.Svc}
}
