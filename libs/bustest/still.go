package bustest

import (
	"strings"
	"testing"
)

// StoodStill reports whether an answer of an edge says only that NATS was silent for too long (250
// to 900 ms): the call has not run. A test of something else repeats the call, because a slow
// machine may be suspended for that long.
func StoodStill(answer string) bool {
	return strings.Contains(answer, "the audit trail cannot be written") || strings.Contains(answer, "shared state is not reachable")
}

// DatabaseStoodStill is StoodStill for an answer of a service whose Postgres was silent for too
// long (250 ms).
func DatabaseStoodStill(answer string) bool {
	return strings.Contains(answer, "does not answer; try again shortly")
}

// Heard repeats a request until neither NATS nor Postgres was silent meanwhile, and returns its
// error.
func Heard(t testing.TB, request func() error) (err error) {
	t.Helper()
	Eventually(t, "NATS and Postgres are heard", func() bool {
		err = request()
		return err == nil || !StoodStill(err.Error()) && !DatabaseStoodStill(err.Error())
	})
	return err
}
