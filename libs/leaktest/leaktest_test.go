package leaktest

import (
	"testing"
	"time"
)

// A goroutine that takes a second to end is not a leak; one that does not end is.
func TestFind(t *testing.T) {
	go func() { <-time.After(time.Second) }()
	if err := find(patience); err != nil {
		t.Error(err)
	}
	end := make(chan struct{})
	defer close(end)
	go func() { <-end }()
	if err := find(0); err == nil {
		t.Error("a goroutine that goes on is not found")
	}
}
