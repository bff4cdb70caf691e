package streamable_test

import (
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/leaktest"
	"github.com/busbar-mcp/busbar/services/edge"
	"github.com/busbar-mcp/busbar/services/edge/door"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

// writeTime is long enough for a loaded machine, whose writes may stand still for a second
// or two, and short enough to wait for.
const writeTime = 3 * time.Second

func TestMain(m *testing.M) {
	door.SetTimes(writeTime, 3*writeTime/2)
	leaktest.Main(m)
}

func start(t testing.TB, change ...func(*edge.Config)) *edgetest.World {
	t.Helper()
	return edgetest.Start(t, change...)
}

type header = edgetest.Header

// Short names of the kit's.
var (
	modern = edgetest.Modern
	merge  = edgetest.With
	listen = edgetest.Listen
)

const absent = edgetest.Absent

const elicits = `{"elicitation":{}}`
