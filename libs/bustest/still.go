package bustest

import "strings"

// StoodStill reports whether an answer of an edge is one that only says that NATS was not heard
// for a quarter of a second, or one: the call has not run, and is to be made again. A test that
// is about something else makes it again, for a slow machine stands still for that long.
func StoodStill(answer string) bool {
	return strings.Contains(answer, "the audit trail cannot be written") || strings.Contains(answer, "shared state is not reachable")
}
