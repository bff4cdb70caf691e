package logs

import (
	"fmt"
	"testing"
	"time"
)

// An instance that no longer answers is not counted, and makes room for others.
func TestInstancesThatAreSilent(t *testing.T) {
	t.Parallel()
	var instances, services int
	r := Reader{
		Missed: func(string, string, uint64) error { return nil },
		Here:   func(i, s, _ int) error { instances, services = i, s; return nil },
	}
	known := fleet{}
	take := func(instance string) (changed bool) {
		t.Helper()
		changed, err := r.take(known, said{Here: &here{Service: "svc", Instance: instance}})
		if err != nil {
			t.Fatal(err)
		}
		return changed
	}
	for i := range maxInstances {
		take(fmt.Sprint("i", i))
	}
	if take("more") {
		t.Errorf("more than %d instances of a service are known", maxInstances)
	}
	if known.lose(time.Now()) {
		t.Error("those that have just answered are lost")
	}
	if later := time.Now().Add(life + time.Second); !known.lose(later) || known.lose(later) {
		t.Error("those that are silent are not lost once")
	}
	if !take("i0") || !take("more") || len(known["svc"]) != 2 {
		t.Errorf("%d instances are known, of two that answer", len(known["svc"]))
	}
	if err := r.here(known); err != nil || instances != 2 || services != 1 {
		t.Errorf("%d instances of %d services, %v", instances, services, err)
	}
}
