package edgetest

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is that of bustest, which is imported by tests alone.
const patience = time.Minute

// Main runs the tests of a package, and proves that the goroutines they started have
// ended. goleak.VerifyTestMain gives these less than half a second; on a busy machine what
// was told to end takes longer, and a connection that was closed is noticed later.
func Main(m *testing.M) {
	code := m.Run()
	if code == 0 {
		err := goleak.Find()
		for begun := time.Now(); err != nil && time.Since(begun) < patience; {
			err = goleak.Find()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}
