package edges

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/internal/subject"
)

// OnUpdated calls f for every resource and list that a service says has changed. f
// must not block. stop ends that.
func OnUpdated(conn *bus.Conn, f func(bus.Updated)) (stop func(), err error) {
	return conn.Subscribe(subject.Updated("*"), func(msg *nats.Msg) { readUpdated(msg, f) })
}

func readUpdated(msg *nats.Msg, f func(bus.Updated)) {
	u := &busv1.ResourceUpdated{}
	if proto.Unmarshal(msg.Data, u) == nil && (u.Uri != "" || u.Prompts) {
		f(bus.Updated{Service: subject.UpdatedBy(msg.Subject), URI: u.Uri, Tenant: u.Tenant, Listed: u.Listed, Prompts: u.Prompts})
	}
}

// maxMissed bounds the updates that are read for a client that was away.
const maxMissed = 20_000

// UpdatedSince calls f for all that services said had changed since then, perhaps more
// than once. all is false when some are not kept any more.
func UpdatedSince(ctx context.Context, conn *bus.Conn, then time.Time, f func(bus.Updated)) (all bool, err error) {
	if time.Since(then) > StreamTTL {
		return false, nil
	}
	read, most, of := 0, 0, map[string]int{}
	err = fetch(ctx, conn, bus.Query{Since: &then, Subject: subject.Updated("*")}, func(msg *nats.Msg, _ uint64) bool {
		readUpdated(msg, f)
		read++
		of[msg.Subject]++
		most = max(most, of[msg.Subject])
		return read < maxMissed
	})
	// A subject that is full has made room for its latest.
	return read < maxMissed && most < maxRoundFrames && err == nil, err
}
