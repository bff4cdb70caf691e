// Package leaktest checks with goleak that the goroutines of tests end. It gives them the time that
// a slow machine needs: goleak itself waits for less than half a second. Start reading at Main.
package leaktest

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is how long goroutines may take to end. Only a leak uses all of it.
const patience = 20 * time.Second

// Main runs the tests of a package, which fails when they leave goroutines behind.
func Main(m *testing.M) { os.Exit(Code(m.Run())) }

// Code returns the exit status of a package's tests: code, unless they passed but left goroutines
// behind.
func Code(code int) int {
	if code != 0 {
		return code
	}
	if err := find(patience); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// find repeats goleak.Find until it succeeds or the time is over.
func find(patience time.Duration) error {
	for begun := time.Now(); ; {
		if err := goleak.Find(); err == nil || time.Since(begun) > patience { // Find itself waits
			return err
		}
	}
}
