// Package history records the calls of clients and the answers they got.
package history

import (
	"os"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/test/caller"
)

// Kind is the kind of a client's call.
type Kind string

const (
	// Read has no effect and is repeated.
	Read Kind = "read"
	// ReadOnce has no effect and is not repeated.
	ReadOnce Kind = "read once"
	// Write has an effect, no key, and is not repeated.
	Write Kind = "write"
	// WriteAgain has an effect and no key; it is repeated after "executed: no" alone.
	WriteAgain Kind = "write again"
	// Keyed has an effect and an idempotency key, and is repeated until it succeeds.
	Keyed Kind = "keyed"
	// Stored is a keyed write of a resource; the service keeps the key.
	Stored Kind = "stored"
	// Impatient would have an effect much later; its client leaves before.
	Impatient Kind = "impatient"
	// Overdue would have an effect after its tool's time limit.
	Overdue Kind = "overdue"
	// Approval has an effect that a person agrees to; the approval is used twice.
	Approval Kind = "approval"
	// Task is begun, and looked after until it has ended.
	Task Kind = "task"
	// Session is a call in a session that was opened long ago.
	Session Kind = "session"
	// Told is a change of a resource that a subscriber has to hear of.
	Told Kind = "notification"
	// Batch is one of several writes in a request.
	Batch Kind = "batch"
	// Elicited has an effect that its user is asked for, and agrees to at another edge.
	Elicited Kind = "elicited"
	// Resumed is a call whose client loses the connection, and comes back for the rest.
	Resumed Kind = "resumed"
	// Changed is a resource that is created, changed, read and deleted, with keys.
	Changed Kind = "changed"
)

// Try is one request and its outcome.
type Try struct {
	Edge  string    `json:"edge"`
	Began time.Time `json:"began"`
	Ended time.Time `json:"ended"`
	caller.Answer
}

// Call is one call with all its tries.
type Call struct {
	Kind Kind `json:"kind"`
	// Door is the format, Key names the effect in the ledger; it is empty for a call without one.
	Door  string    `json:"door"`
	Key   string    `json:"key,omitzero"`
	Began time.Time `json:"began"`
	Ended time.Time `json:"ended"`
	Tries []Try     `json:"tries"`
	// Broken says which promise was not kept, of a task or a notification.
	Broken string `json:"broken,omitzero"`
}

// Last is how the call ended.
func (c *Call) Last() Try { return c.Tries[len(c.Tries)-1] }

// OK reports whether it succeeded.
func (c *Call) OK() bool {
	return c.Broken == "" && slices.ContainsFunc(c.Tries, func(t Try) bool { return t.OK })
}

// Served are the tries until the first that succeeded: some calls are made once more,
// although they have their answer.
func (c *Call) Served() []Try {
	if i := slices.IndexFunc(c.Tries, func(t Try) bool { return t.OK }); i >= 0 {
		return c.Tries[:i+1]
	}
	return c.Tries
}

// Affected reports whether its client noticed a fault: it needed another try, failed, or
// was slow.
func (c *Call) Affected(slow time.Duration) bool {
	served := c.Served()
	return !c.OK() || len(served) > 1 || served[0].Ended.Sub(served[0].Began) > slow
}

// Took is how long the client had to wait.
func (c *Call) Took() time.Duration { return c.Ended.Sub(c.Began) }

// History is all calls of a run, in the order in which they ended.
type History struct {
	mu    sync.Mutex
	calls []Call
}

// Add adds a call that has ended.
func (h *History) Add(c Call) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, c)
}

// Calls are those so far.
func (h *History) Calls() []Call {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.calls[:len(h.calls):len(h.calls)]
}

// Write keeps the history, a line for each call.
func (h *History) Write(file string) error {
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	for _, c := range h.Calls() {
		line, err := json.Marshal(c)
		if err == nil {
			_, err = out.Write(append(line, '\n'))
		}
		if err != nil {
			return err
		}
	}
	return out.Close()
}
