// Package limit holds every bound of the service in one place.
package limit

import (
	"time"

	"github.com/busbar-mcp/busbar/libs/fetch"
)

// Bounds of a call and of its requests to GitHub.
const (
	// Call is the longest a tool runs.
	Call = 30 * time.Second
	// Margin is kept back from a call's deadline, so that the model is told what
	// happened and not only that time ran out.
	Margin = time.Second
	// Attempt is the longest one request to GitHub takes, body included.
	Attempt = 10 * time.Second
	// Attempts is how often a request that fails is made at most.
	Attempts = 3
	// Backoff is the longest pause before the second attempt; it doubles for the
	// third. The pause is drawn at random from its upper half.
	Backoff = 300 * time.Millisecond
	// Redirects is how many are followed, all of them within the API's host.
	Redirects = 3
	// Body is the largest response read, decompressed; Header the largest header.
	Body   = 5 << 20
	Header = 256 << 10
)

// Bounds of the circuit that protects GitHub's host, and us from it.
const (
	// Failures in a row open the circuit.
	Failures = 5
	// Open is how long it stays so before one request probes.
	Open = 15 * time.Second
	// Patience is how long a request must have waited for its time-out to count
	// as GitHub's failure: a call with little time left says nothing.
	Patience = 3 * time.Second
)

// Bounds of rate limiting, whatever GitHub says.
const (
	// Secondary is how long to wait after a secondary limit without Retry-After;
	// GitHub asks for at least a minute.
	Secondary = time.Minute
	// LongestWait is the longest block believed.
	LongestWait = 2 * time.Hour
	// Accounts is how many tokens' limits are remembered.
	Accounts = 1024
)

// Bounds of the cache: all of it, and one response in it.
const (
	Cache      = 64 << 20
	CacheEntry = 1 << 20
)

// Bounds of arguments, in bytes unless said otherwise.
const (
	Owner   = 100
	Repo    = 100
	Path    = 4096
	Ref     = 255
	Query   = 1024
	Name    = 254
	Labels  = 20 // labels in a filter
	PerPage = 100
	// DefaultPerPage is small: results go to a model.
	DefaultPerPage = 20
	// Page is the last page asked for.
	Page = 100_000
)

// Bounds of what a tool returns, in bytes of text from GitHub.
const (
	// Line is a title, a name, an error message.
	Line = 1 << 10
	// Excerpt is a body in a list, Text a body by itself.
	Excerpt = 1 << 10
	Text    = 64 << 10
	// Comment is one of a list, Patch one file's.
	Comment = 16 << 10
	Patch   = 16 << 10
	// Output is all the longer texts of one result together.
	Output = 256 << 10
	// Entries of a directory, of labels and the like.
	Entries = 1000
	// DefaultContent and MaxContent bound a file's contents, and a diff.
	DefaultContent = 64 << 10
	MaxContent     = 512 << 10
)

// Guest are the bounds of requests, as one.
var Guest = fetch.Limits{
	Call: Call, Margin: Margin, Attempt: Attempt, Attempts: Attempts, Backoff: Backoff, Body: Body,
	Failures: Failures, Open: Open, Patience: Patience, LongestWait: LongestWait,
}
