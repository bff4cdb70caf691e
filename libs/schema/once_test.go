package schema

import (
	"fmt"
	"runtime"
	"testing"
	"time"
)

func TestOnce(t *testing.T) {
	const raw = `{"type":"object","description":"TestOnce"}`
	a, err := CompileInput([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	b, err := CompileInput([]byte(raw))
	if err != nil || a != b {
		t.Errorf("a schema that is held was compiled again: %v", err)
	}
	if c, err := Compile([]byte(raw)); err != nil || c == a {
		t.Errorf("what is not an input has the headers of one: %v", err)
	}
	if _, err := Compile([]byte(`{"type":"objec"}`)); err == nil {
		t.Error("a bad schema was compiled")
	}
	runtime.KeepAlive(a)
	runtime.KeepAlive(b)
}

// Schemas that are no longer used take no memory, however many there were.
func TestForgotten(t *testing.T) {
	for i := range 500 {
		if _, err := Compile(fmt.Appendf(nil, `{"type":"object","description":"TestForgotten %d"}`, i)); err != nil {
			t.Fatal(err)
		}
	}
	for deadline := time.Now().Add(time.Minute); ; runtime.Gosched() {
		runtime.GC()
		held.Lock()
		n := len(held.schemas)
		held.Unlock()
		if n < 100 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d schemas are known, and nobody has them", n)
		}
	}
}
