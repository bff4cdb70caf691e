package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/busbar-mcp/busbar/test/bench/load"
)

// stored is reading and writing of resources of 1 KiB: on SQLite in "busbar dev", and as
// processes on Postgres that syncs its commits.
func (b *bench) stored(ctx context.Context) error {
	dev, err := b.dev()
	if err != nil {
		return err
	}
	fleet, err := b.fleet(1, part{name: "resource", service: "resource:store", stores: true})
	if err != nil {
		return err
	}
	text := strings.Repeat("x", 1024)
	var contenders []*contender
	for _, store := range []struct {
		name   string
		system *system
	}{{"SQLite", dev}, {"Postgres", fleet}} {
		s := store.system
		var reads, writes []*load.Target
		for i := range b.connections {
			uri := fmt.Sprintf("bench:%d", i)
			arguments := fmt.Sprintf(`{"uri":%q,"text":%q}`, uri, text)
			if err := await(ctx, call{tool: "list_resources", arguments: "{}", want: "result"}.modern(s)); err != nil {
				return err
			}
			if _, err := load.Once(call{tool: "create_resource", arguments: arguments, want: uri, key: uri}.modern(s)); err != nil {
				return err
			}
			reads = append(reads, &load.Target{Address: s.address, Request: rpc(s, "resources/read", uri, fmt.Sprintf(`"uri":%q,`, uri), ""), Want: []byte(text)})
			writes = append(writes, call{tool: "update_resource", arguments: arguments, want: uri}.modern(s))
		}
		r, err := b.enter(ctx, "reads, "+store.name, s, reads...)
		if err != nil {
			return err
		}
		w, err := b.enter(ctx, "writes, "+store.name, s, writes...)
		if err != nil {
			return err
		}
		contenders = append(contenders, r, w)
	}
	if err := b.contest(ctx, "stored", contenders...); err != nil {
		return err
	}
	for _, c := range contenders {
		b.add(row{Group: "stored", What: "resources of 1 KiB, " + c.name, Unit: "calls/s", Of: c.cost.Rate})
	}
	return nil
}
