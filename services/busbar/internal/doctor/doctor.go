// Package doctor looks at a whole Busbar from outside, and says what is wrong with it,
// what follows from that, and what mends it. It changes nothing.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sourcegraph/conc/iter"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/storage"
	"github.com/busbar-mcp/busbar/libs/join"
	"github.com/busbar-mcp/busbar/services/busbar/internal/client"
)

// State is how bad a finding is.
type State string

const (
	// OK is as it should be.
	OK State = "ok"
	// Warn will be wrong if nobody does anything, or may be meant.
	Warn State = "warning"
	// Wrong needs somebody.
	Wrong State = "wrong"
)

// Finding is one thing that was looked at.
type Finding struct {
	// Check is what looked: bus, permissions, storage, services, clocks, names, edges,
	// database, certificates, access.
	Check string `json:"check"`
	State State  `json:"state"`
	// The finding; if it is not well, what Follows from it and what Mends it.
	What    string `json:"what"`
	Follows string `json:"follows,omitzero"`
	Mend    string `json:"mend,omitzero"`
}

// Options say what to look at.
type Options struct {
	// Bus has the servers, and who asks them: an operator.
	Bus join.Flags
	// Replicas is on how many servers of NATS everything should be kept.
	Replicas storage.Replicas
	// Edges are those asked whether they are ready. None: nobody is.
	Edges []client.Options
	// DatabaseURL of the services that own data; empty: not looked at.
	DatabaseURL string
	// Certificates are files in PEM whose expiry counts.
	Certificates []string
	// Access is the policy file of the edges; empty: not looked at.
	Access string
	// Wait bounds each check.
	Wait time.Duration
	// Version of this program.
	Version string
}

// examination is one look at everything.
type examination struct {
	Options
	conn *bus.Conn
}

// check is a part of it. look returns what it found; nothing is fine too.
type check struct {
	name string
	look func(*examination, context.Context) ([]Finding, error)
	// asksBus: it is not made where no server of the bus answers.
	asksBus bool
}

// checks are in the order in which they are shown.
var checks = []check{
	{"permissions", (*examination).permissions, true},
	{"storage", (*examination).storage, true},
	{"services", (*examination).services, true},
	{"names", (*examination).names, true},
	{"clocks", (*examination).clocks, true},
	{"edges", (*examination).edges, false},
	{"database", (*examination).database, false},
	{"certificates", (*examination).certificates, false},
	{"access", (*examination).access, false},
}

// Examine looks at everything at once. It ends: what does not answer within o.Wait is a
// finding of its own.
func Examine(ctx context.Context, o Options) []Finding {
	e := &examination{Options: o}
	all := e.join(ctx)
	if e.conn != nil {
		defer e.conn.Close()
	}
	made := checks
	if e.conn == nil {
		var names []string
		made = slices.DeleteFunc(slices.Clone(checks), func(c check) bool {
			if c.asksBus {
				names = append(names, c.name)
			}
			return c.asksBus
		})
		all = append(all, Finding{"bus", Warn, "not looked at, as no NATS server answers: " + strings.Join(names, ", "), "more may be wrong", "mend the bus, and ask again"})
	}
	return slices.Concat(append([][]Finding{all}, iter.Map(made, func(c *check) []Finding { return e.bounded(ctx, *c) })...)...)
}

// bounded makes a check within its time.
func (e *examination) bounded(ctx context.Context, c check) []Finding {
	ctx, cancel := context.WithTimeout(ctx, e.Wait)
	defer cancel()
	found, err := c.look(e, ctx)
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		found = append(found, Finding{State: Wrong, What: fmt.Sprintf("no answer in %v", e.Wait), Follows: "callers wait as long, and then fail", Mend: "look at its log and its machine, or give --wait more time"})
	case err != nil:
		found = append(found, Finding{State: Wrong, What: err.Error(), Follows: "nobody knows what else is wrong there", Mend: "look at the log of the NATS servers"})
	}
	for i := range found {
		found[i].Check = c.name
	}
	return found
}

// Worst is the worst state of findings.
func Worst(all []Finding) State {
	worst := OK
	for _, f := range all {
		if f.State == Wrong || f.State == Warn && worst == OK {
			worst = f.State
		}
	}
	return worst
}
