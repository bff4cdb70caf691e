// Package leaktest proves with goleak that the goroutines of tests end, and gives them the
// time for it that a slow machine takes: goleak itself waits for less than half a second.
package leaktest

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is how long they may take. Only those that leak take all of it.
const patience = 20 * time.Second

// Main runs the tests of a package, which fails when they leave goroutines behind.
func Main(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if err := Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// Find is goleak.Find with patience.
func Find() error {
	for begun := time.Now(); ; {
		if err := goleak.Find(); err == nil || time.Since(begun) > patience { // it waits itself
			return err
		}
	}
}
