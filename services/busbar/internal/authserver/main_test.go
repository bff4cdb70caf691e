package authserver_test

import (
	"testing"

	"github.com/busbar-mcp/busbar/libs/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }
