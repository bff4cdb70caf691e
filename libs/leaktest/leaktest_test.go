package leaktest

import (
	"testing"
	"time"
)

// What takes a second to end is no leak.
func TestFind(t *testing.T) {
	go func() { <-time.After(time.Second) }()
	if err := Find(); err != nil {
		t.Error(err)
	}
}
