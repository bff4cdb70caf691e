package bus

import (
	"context"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"

	"github.com/busbar-mcp/busbar/libs/bus/internal/subject"
	"github.com/busbar-mcp/busbar/libs/bus/internal/wire"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// Reading is an instance's answer to a survey: its identity and its counts.
type Reading struct {
	Service, Instance, Version string
	Stats
	// NotReady is the instance's own reason why it is not ready; empty if it is ready, or if its
	// release does not report this.
	NotReady string
	// Started is when the instance started; zero if it does not report it.
	Started time.Time
	// Tools are counts by tool, of at most 256 tools that were called.
	Tools map[string]ToolStats
}

// maxReadings limits the answers to a survey, because anyone on the bus may answer.
const maxReadings = 10_000

// quiet is the time without an answer after which a survey ends.
const quiet = 150 * time.Millisecond

// Survey asks every instance that called Describe for its counts, and returns the answers that
// arrived in time. It costs each instance one message.
func (c *Conn) Survey(ctx context.Context, within time.Duration) (all []Reading, err error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	inbox := c.nc.NewInbox()
	sub, err := c.nc.SubscribeSync(inbox)
	if err != nil {
		return nil, wire.NotSent(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := c.nc.PublishRequest("$SRV.STATS", inbox, nil); err != nil {
		return nil, wire.NotSent(err)
	}
	seen := map[string]bool{}
	for len(all) < maxReadings {
		msg, err := next(ctx, sub, len(all) == 0)
		if err != nil && len(all) == 0 && !c.Connected() {
			return nil, wire.NotSent(err)
		}
		if err != nil {
			return all, nil // no more answers
		}
		if r, ok := reading(msg.Data); ok && !seen[r.Service+"."+r.Instance] {
			seen[r.Service+"."+r.Instance] = true
			all = append(all, r)
		}
	}
	return all, nil
}

// Ready asks one instance whether it is ready, and why not. Unlike a survey, only instances of its
// service hear the question.
func (c *Conn) Ready(ctx context.Context, service, instance string) (notReady string, answers bool) {
	if !subject.Token(service) || !subject.Token(instance) {
		return "", false
	}
	msg, err := c.nc.RequestWithContext(ctx, subject.Stats(service, instance), nil)
	var said condition
	if err != nil || json.Unmarshal(msg.Data, &said) != nil {
		return "", false
	}
	return fault.Clip(said.NotReady), true
}

// next waits for an answer: for the first one until the deadline, for others until quiet has
// passed.
func next(ctx context.Context, sub *nats.Subscription, first bool) (*nats.Msg, error) {
	if !first {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, quiet)
		defer stop()
	}
	return sub.NextMsgWithContext(ctx)
}

// reading parses an answer of NATS micro.
func reading(data []byte) (Reading, bool) {
	var said struct {
		Name     string    `json:"name"`
		Version  string    `json:"version"`
		Started  time.Time `json:"started"`
		Metadata struct {
			Instance string `json:"instance"`
		} `json:"metadata"`
		Endpoints []struct {
			Data condition `json:"data"`
		} `json:"endpoints"`
	}
	if err := json.Unmarshal(data, &said); err != nil || !subject.Token(said.Name) || !subject.Token(said.Metadata.Instance) || len(said.Endpoints) != 1 || len(said.Endpoints[0].Data.Durations) > buckets || len(said.Endpoints[0].Data.Tools) > maxCountedTools {
		return Reading{}, false // not a service of Busbar
	}
	now := said.Endpoints[0].Data
	return Reading{said.Name, said.Metadata.Instance, fault.Clip(said.Version), now.Stats, fault.Clip(now.NotReady), said.Started, now.Tools}, true
}
