package sse

import "time"

// SetTimes shortens what tests have to wait for. Before any test runs.
func SetTimes(write, idle time.Duration) { writeTime, keepAlive = write, idle }
