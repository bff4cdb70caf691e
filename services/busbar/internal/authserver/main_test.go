package authserver_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/busbar-mcp/busbar/libs/leaktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaktest.Patient(m)) }
