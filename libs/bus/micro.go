package bus

import (
	"fmt"

	"github.com/nats-io/nats.go/micro"

	"github.com/busbar-mcp/busbar/libs/bus/internal/subject"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// Stats are the counts behind `nats micro stats`.
type Stats struct {
	Served int64 `json:"served"`
	Failed int64 `json:"failed"`
	// Refused are requests that no edge has sealed for this service.
	Refused int64 `json:"refused"`
	// InFlight are running or waiting for a slot.
	InFlight int64 `json:"in_flight"`
	// Running have a slot, of which there are Slots for calls of clients, and as many for
	// calls of tools at each depth; Waiting wait for one. Overloaded counts those that got
	// none.
	Running    int   `json:"running"`
	Waiting    int   `json:"waiting"`
	Slots      int   `json:"slots"`
	Overloaded int64 `json:"overloaded"`
	// TookNano is how long the handlers of the calls that were served took, together.
	TookNano int64 `json:"took_ns"`
	// Durations are those calls by how long each took.
	Durations Durations `json:"durations,omitzero"`
}

// Stats returns this server's counts since its start.
func (s *Server) Stats() Stats {
	all := Stats{
		Served: s.served.Load(), Failed: s.failed.Load(), Refused: s.refused.Load(), InFlight: s.queued.Load(),
		Slots: s.cfg.Concurrency, Overloaded: s.overloaded.Load(), TookNano: s.took.Load(), Durations: s.durations.now(),
	}
	for _, depth := range s.slots {
		running, waiting := depth.now()
		all.Running, all.Waiting = all.Running+running, all.Waiting+waiting
	}
	return all
}

// condition is what an instance says of itself when it is asked.
type condition struct {
	Stats
	// Tools are counts by tool, of tools that were called.
	Tools map[string]ToolStats `json:"tools,omitzero"`
	// NotReady is why it is not ready, cut to 200 bytes; empty where it is.
	NotReady string `json:"not_ready,omitzero"`
}

// Describe makes the server visible to `nats micro ls`, info and stats. That
// is for people: nothing is routed by it, since anyone on the bus could answer
// under any name. notReady says why the instance is not ready, empty where it is; nil for
// always. The returned function ends it.
func (s *Server) Describe(version, description string, notReady func() string) (stop func(), err error) {
	now := func() condition {
		c := condition{Stats: s.Stats(), Tools: s.tools.now()}
		if notReady != nil {
			c.NotReady = fault.Clip(notReady())
		}
		return c
	}
	svc, err := micro.AddService(s.conn.nc, micro.Config{
		Name: s.cfg.Service, Version: version, Description: description,
		Metadata:     map[string]string{"instance": s.instance},
		StatsHandler: func(*micro.Endpoint) any { return now() },
	})
	if err != nil {
		return nil, fmt.Errorf("describe service %s: %w", s.cfg.Service, err)
	}
	// micro hangs statistics on an endpoint. This one is the instance's own, so
	// that asking it says which instance answered.
	err = svc.AddEndpoint("calls", micro.HandlerFunc(func(r micro.Request) { _ = r.RespondJSON(now()) }),
		micro.WithEndpointSubject(subject.Stats(s.cfg.Service, s.instance)), micro.WithEndpointQueueGroupDisabled())
	if err != nil {
		_ = svc.Stop()
		return nil, fmt.Errorf("describe service %s: %w", s.cfg.Service, err)
	}
	return func() { _ = svc.Stop() }, nil
}
