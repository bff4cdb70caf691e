package e2e

import (
	"testing"
	"time"
)

// eventually waits until ok holds, and fails the test after answerTime.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	within(t, answerTime, what, ok)
}

// within is eventually with another time. It asks less often during a long wait, because each
// question is work for several processes.
func within(t testing.TB, limit time.Duration, what string, ok func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	for !ok() {
		waited := time.Since(began)
		if waited > limit {
			t.Fatalf("did not happen in %v: %s", limit, what)
		}
		time.Sleep(min(max(waited/10, 10*time.Millisecond), 100*time.Millisecond))
	}
	return time.Since(began)
}
