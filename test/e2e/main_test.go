// Package e2e tests Busbar from outside: the programs as they are shipped, the
// published MCP client, and signals.
package e2e

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"github.com/busbar-mcp/busbar/libs/bustest/programs"
)

// bin is where the programs are.
var bin string

func TestMain(m *testing.M) {
	flag.Parse()
	// Most tests wait for other processes most of the time.
	if f := flag.Lookup("test.parallel"); f.Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		_ = f.Value.Set("8")
	}
	built, err := programs.Build("../..",
		"./services/busbar/cmd/busbar", "./services/edge/cmd/edge", "./services/text/cmd/text", "./examples/hello", "./test/testservice/cmd/testservice")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	bin = filepath.Dir(built[0])
	os.Exit(m.Run())
}
