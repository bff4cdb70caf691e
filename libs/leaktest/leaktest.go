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
func Main(m *testing.M) { os.Exit(Code(m.Run())) }

// Code is what a package's tests exit with: code, unless they passed and left goroutines behind.
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

// find is goleak.Find, again and again until this time is over.
func find(patience time.Duration) error {
	for begun := time.Now(); ; {
		if err := goleak.Find(); err == nil || time.Since(begun) > patience { // it waits itself
			return err
		}
	}
}
