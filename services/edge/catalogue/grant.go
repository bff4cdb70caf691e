package catalogue

import (
	"fmt"
	"time"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/task"
)

// Grants say what services may do, whatever they declare themselves. They never change.
type Grants interface {
	// Offers reports whether a service may have a name. If not, whose names the service that is
	// to have it, for people; it is empty if that is nobody.
	Offers(service string, n Name) (ok bool, whose string)
	// Powers are what a service may do besides answering calls.
	Powers(service string) Powers
	// ReadOnly reports whether a service is trusted when it declares that a tool changes nothing.
	ReadOnly(service, tool string) bool
	// Pinned reports whether tools are offered only as an operator has accepted them.
	Pinned() bool
}

// Powers are what a service may do besides answering calls.
type Powers struct {
	// Calls: its tools may call other tools.
	Calls bool
	// CacheShared: its results may be kept for all callers.
	CacheShared bool
	// Timeout is how long its calls may take, if that is more than the default.
	Timeout time.Duration
}

// may reports whether a service may have a name; without grants every service may.
func (o ownership) may(service string, n Name) (ok bool, whose string) {
	if o.grants == nil {
		return true, ""
	}
	return o.grants.Offers(service, n)
}

// reading reports whether a service may read a URI.
func (s *Snapshot) reading(service, uri string) bool {
	if s.grants == nil {
		return true
	}
	ok, _ := s.grants.Offers(service, Name{ResourceName, uri})
	return ok
}

// bound removes from a tool what its service is not granted, and notes that.
func (b *builder) bound(service, tool string, t *Tool) {
	if b.grants == nil {
		return
	}
	p := b.grants.Powers(service)
	if t.CallsTools && !p.Calls {
		t.CallsTools = false
		b.ungrant(service, "calls", "its tools call others", "they may not")
	}
	if t.CacheShared && !p.CacheShared {
		t.CacheShared = false
		b.ungrant(service, "cache_for_all", "its results are the same for all callers", "they are kept for each caller separately")
	}
	if (t.ReadOnly || t.Idempotent) && !b.grants.ReadOnly(service, tool) {
		t.ReadOnly, t.Idempotent, t.Cache = false, false, 0
		b.ungrant(service, "read_only", "tools such as "+tool+" change nothing, or nothing twice", "they count as tools that do")
	}
	if most := max(bus.DefaultTimeout, p.Timeout); t.Timeout > most {
		b.ungrant(service, "timeout", fmt.Sprintf("calls of tool %s take up to %s", tool, t.Timeout), fmt.Sprintf("they are ended after %s", most))
		t.Timeout = most
	}
	t.TaskTimeout = max(task.Timeout, p.Timeout)
}

// ungrant notes that a service declares something that it is not granted, and what happens
// instead.
func (b *builder) ungrant(service, key, what, so string) {
	at := service + "." + key
	if b.lacking[at] {
		return
	}
	b.lacking[at] = true
	b.ungranted = append(b.ungranted, fmt.Sprintf("service %s says that %s; services.%s of the policy file does not grant it, so %s", service, what, at, so))
}

// Ungranted describes what services declare but are not granted. Names are among the Conflicts.
func (s *Snapshot) Ungranted() []string { return s.ungranted }

// Refused is how many names and powers services are not granted.
func (s *Snapshot) Refused() int {
	n := len(s.ungranted)
	for _, c := range s.conflicts {
		if c.Ungranted {
			n++
		}
	}
	return n
}
