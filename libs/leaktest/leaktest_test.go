package leaktest

import (
	"testing"
	"time"
)

// What takes a second to end is no leak; what does not end is one.
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
