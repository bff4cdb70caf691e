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
	// Refused counts requests without an edge's seal for this service.
	Refused int64 `json:"refused"`
	// InFlight counts calls that run or wait for a slot.
	InFlight int64 `json:"in_flight"`
	// Running calls have a slot, Waiting calls wait for one. There are Slots for calls of clients,
	// and as many for calls of tools at each depth. Overloaded counts calls that got none.
	Running    int   `json:"running"`
	Waiting    int   `json:"waiting"`
	Slots      int   `json:"slots"`
	Overloaded int64 `json:"overloaded"`
	// TookNano is the total time of all handlers of served calls, in nanoseconds.
	TookNano int64 `json:"took_ns"`
	// Durations are the same calls by their duration.
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

// condition is an instance's answer about itself.
type condition struct {
	Stats
	// Tools has the counts of each tool that was called.
	Tools map[string]ToolStats `json:"tools,omitzero"`
	// NotReady is the reason why it is not ready, cut to 200 bytes; empty if it is.
	NotReady string `json:"not_ready,omitzero"`
}

// Describe makes the server visible to `nats micro ls`, info and stats. That is for people: nothing
// is routed by it, because anyone on the bus could answer under any name. notReady returns the
// reason why the instance is not ready, empty if it is; nil means always ready. The returned
// function ends it.
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
	// micro attaches statistics to an endpoint. This endpoint belongs to the instance alone, so the
	// answer shows which instance sent it.
	err = svc.AddEndpoint("calls", micro.HandlerFunc(func(r micro.Request) { _ = r.RespondJSON(now()) }),
		micro.WithEndpointSubject(subject.Stats(s.cfg.Service, s.instance)), micro.WithEndpointQueueGroupDisabled())
	if err != nil {
		_ = svc.Stop()
		return nil, fmt.Errorf("describe service %s: %w", s.cfg.Service, err)
	}
	return func() { _ = svc.Stop() }, nil
}
