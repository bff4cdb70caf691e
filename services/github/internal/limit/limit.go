// Package limit holds every limit of the service in one place.
package limit

import (
	"time"

	"github.com/busbar-mcp/busbar/libs/fetch"
)

// Limits of a call and of its requests to GitHub.
const (
	// Call is the time limit of a tool call.
	//limit:github a call of a tool | the tool fails
	Call = 30 * time.Second
	// Margin is kept back from a call's deadline, so that the model learns what happened,
	// not only that time ran out.
	Margin = time.Second
	// Attempt is the time limit of one request to GitHub, including the body.
	//limit:github one request to GitHub | it is repeated, if it is a GET
	Attempt = 10 * time.Second
	// Attempts is how often a failing request is tried.
	//limit:github attempts of a GET that gets 5xx, no answer or half of one | the tool fails
	Attempts = 3
	// Backoff is the longest pause before the second attempt; it doubles for the third. The
	// pause is random, from the upper half.
	Backoff = 300 * time.Millisecond
	// Redirects is how many redirects are followed, all within the API's host.
	Redirects = 3
	// Body is the largest response read, decompressed; Header the largest header.
	//limit:github a response of GitHub, decompressed | the tool fails
	Body   = 5 << 20
	Header = 256 << 10
)

// Limits of the circuit breaker that protects GitHub's host and this service.
const (
	// Failures in a row open the circuit.
	//limit:github failures in a row after which GitHub counts as down | calls fail at once
	Failures = 5
	// Open is how long it stays open before one request probes.
	//limit:github time after which GitHub is tried again | one request tries it
	Open = 15 * time.Second
	// Patience is how long a request must have waited for its timeout to count as GitHub's
	// failure: with less time the timeout proves nothing.
	Patience = 3 * time.Second
)

// Limits of rate limiting, whatever GitHub says.
const (
	// Secondary is how long to wait after a secondary limit without Retry-After;
	// GitHub asks for at least a minute.
	Secondary = time.Minute
	// LongestWait is the longest block that is accepted.
	LongestWait = 2 * time.Hour
	// Accounts is for how many tokens limits are remembered.
	Accounts = 1024
)

// Limits of the cache: of all of it, and of one response.
const (
	Cache      = 64 << 20
	CacheEntry = 1 << 20
)

// Limits of arguments, in bytes unless stated otherwise.
const (
	Owner   = 100
	Repo    = 100
	Path    = 4096
	Ref     = 255
	Query   = 1024
	Name    = 254
	Labels  = 20 // labels in a filter
	PerPage = 100
	// DefaultPerPage is small, because results go to a model.
	DefaultPerPage = 20
	// Page is the largest page number.
	Page = 100_000
)

// Limits of a tool's result, in bytes of text from GitHub.
const (
	// Line bounds a title, a name or an error message.
	Line = 1 << 10
	// Excerpt bounds a body in a list, Text a single body.
	Excerpt = 1 << 10
	Text    = 64 << 10
	// Comment bounds a comment in a list, Patch the patch of a file.
	Comment = 16 << 10
	Patch   = 16 << 10
	// Output bounds the longer texts of one result together.
	//limit:github all texts of one result | the rest is left out
	Output = 256 << 10
	// Entries bounds a directory, a list of labels and the like.
	Entries = 1000
	// DefaultContent and MaxContent bound a file's contents, and a diff.
	//limit:github text of a file or diff; `maxBytes` may ask for 512 KiB | the rest is left out
	DefaultContent = 64 << 10
	MaxContent     = 512 << 10
)

// Guest combines the limits of requests.
var Guest = fetch.Limits{
	Call: Call, Margin: Margin, Attempt: Attempt, Attempts: Attempts, Backoff: Backoff, Body: Body,
	Failures: Failures, Open: Open, Patience: Patience, LongestWait: LongestWait,
}
