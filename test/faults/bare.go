package main

import (
	"context"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/busbar-mcp/busbar/libs/bus/permission"
	"github.com/busbar-mcp/busbar/libs/bus/secret"
)

// needed are the streams without which nothing with an effect runs.
var needed = []string{"KV_outcomes", "AUDIT"}

// led says, when it is called, how long a bare client of NATS has to ask until the leader
// of every stream in needed answers, which it does when it takes writes. So what effects
// take longer than that is ours. Connect the client before servers are away, as ours are.
func (w *world) led(ctx context.Context) (wait func() time.Duration, end func(), err error) {
	urls, dir := w.bus()
	who, err := secret.Dir(dir).Read(permission.Operator)
	if err != nil {
		return nil, nil, err
	}
	user, err := nkeys.FromSeed(who.Seed)
	if err != nil {
		return nil, nil, err
	}
	public, err := user.PublicKey()
	if err != nil {
		return nil, nil, err
	}
	nc, err := nats.Connect(urls, nats.RootCAs(filepath.Join(dir, "ca.pem")), nats.Nkey(public, user.Sign),
		nats.CustomInboxPrefix(strings.TrimSuffix(permission.Inbox(permission.Operator), ".>")), nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond))
	if err != nil {
		return nil, nil, err
	}
	wait = func() time.Duration {
		began := time.Now()
		var all sync.WaitGroup
		for _, stream := range needed {
			all.Go(func() {
				for ctx.Err() == nil && !leads(ctx, nc, stream) {
					_ = pause(ctx, 50*time.Millisecond)
				}
			})
		}
		all.Wait()
		return time.Since(began)
	}
	return wait, nc.Close, nil
}

// leads reports whether a stream has a leader: nobody else tells of it.
func leads(ctx context.Context, nc *nats.Conn, stream string) bool {
	ctx, cancel := context.WithTimeout(ctx, 250*time.Millisecond)
	defer cancel()
	msg, err := nc.RequestWithContext(ctx, "$JS.API.STREAM.INFO."+stream, nil)
	if err != nil {
		return false
	}
	var said struct {
		Cluster struct {
			Leader string `json:"leader"`
		} `json:"cluster"`
	}
	return json.Unmarshal(msg.Data, &said) == nil && said.Cluster.Leader != ""
}
