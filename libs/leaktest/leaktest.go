// Package leaktest gives goroutines the time to end that a slow machine takes, before goleak
// says that they don't: goleak itself waits for less than half a second.
package leaktest

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is how long they may take. Only those that leak take all of it.
const patience = 20 * time.Second

// Patient is for goleak.VerifyTestMain, with the options that it has.
func Patient(m *testing.M, options ...goleak.Option) goleak.TestingM { return patient{m, options} }

type patient struct {
	goleak.TestingM
	options []goleak.Option
}

func (p patient) Run() int {
	code := p.TestingM.Run()
	if code == 0 {
		_ = Find(p.options...) // which goleak does once more, and says what there is
	}
	return code
}

// Find is goleak.Find with patience.
func Find(options ...goleak.Option) error {
	for begun := time.Now(); ; {
		if err := goleak.Find(options...); err == nil || time.Since(begun) > patience { // it waits itself
			return err
		}
	}
}
