package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/busbar-mcp/busbar/test/bench/load"
	"github.com/busbar-mcp/busbar/test/bench/process"
)

// crowd is an edge on a bus of so many services with ten tools each. They are one process,
// and have no users of their own.
func (b *bench) crowd(services int) (*system, error) {
	dir, err := b.folder("crowd")
	if err != nil {
		return nil, err
	}
	s := &system{dir: dir}
	if err := b.natsServer(s, dir, "", "1MB"); err != nil {
		return nil, err
	}
	if _, err := b.start(s, process.Command{Name: "edge", Path: b.programs.path("edge"), Args: []string{
		"--listen", "127.0.0.1:0", "--nats", s.nats, "--data-dir", filepath.Join(dir, "edge"), "--audit-spool", filepath.Join(dir, "spool"),
	}}); err != nil {
		return nil, err
	}
	if _, err := b.start(s, process.Command{Name: "audit", Path: b.programs.path("audit"), Env: []string{"BUSBAR_NATS=" + s.nats, "BUSBAR_DATA_DIR=" + dir}}); err != nil {
		return nil, err
	}
	_, err = b.start(s, process.Command{Name: "crowd", Path: b.programs.path("crowd"), Args: []string{s.nats, fmt.Sprint(services)}})
	return s, err
}

// pages walks through tools/list and returns its requests.
func pages(s *system) (all []*load.Target, answers [][]byte, tools int, err error) {
	cursor := ""
	for {
		t := &load.Target{Address: s.address, Request: rpc(s, "tools/list", "", cursor, ""), Want: []byte(`"tools":[`)}
		answer, err := load.Once(t)
		if err != nil {
			return nil, nil, 0, err
		}
		t.Size = len(answer)
		all, answers = append(all, t), append(answers, answer)
		tools += bytes.Count(answer, []byte(`"inputSchema"`))
		var page struct {
			Result struct {
				NextCursor string `json:"nextCursor"`
			} `json:"result"`
		}
		if err := json.Unmarshal(answer, &page); err != nil {
			return nil, nil, 0, err
		}
		if page.Result.NextCursor == "" {
			return all, answers, tools, nil
		}
		cursor = fmt.Sprintf(`"cursor":%q,`, page.Result.NextCursor)
	}
}

// catalogue measures the cost of many tools: lists of them, and calls meanwhile.
func (b *bench) catalogue(ctx context.Context) error {
	most := 1000
	if b.smoke {
		most = 100
	}
	var lists, calls []*contender
	var names []string
	for services := 1; services <= most; services *= 10 {
		if services == 10 {
			continue
		}
		s, err := b.crowd(services)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("%d tools", 10*services)
		targets, answers, err := b.allPages(ctx, s, 10*services)
		if err != nil {
			return err
		}
		own, err := b.walk(ctx, "tools/list, "+name, s, targets)
		if err != nil {
			return err
		}
		peer, err := b.peer("bytes", answers...)
		if err != nil {
			return err
		}
		var same []*load.Target
		for i, t := range targets {
			same = append(same, beside(peer, t, i))
		}
		other, err := b.walk(ctx, "bytes of it", peer, same)
		if err != nil {
			return err
		}
		last := fmt.Sprintf("crowd%d_tool9", services-1)
		caller, err := b.enter(ctx, "a call beside "+name, s, call{tool: last, arguments: `{"text":"One bus. Many circuits."}`, want: "Many circuits"}.modern(s))
		if err != nil {
			return err
		}
		lists, calls, names = append(lists, own, other), append(calls, caller), append(names, name)
	}
	if err := b.contest(ctx, "catalogue", append(lists, calls...)...); err != nil {
		return err
	}
	for i, name := range names {
		r := row{Group: "catalogue", What: "tools/list of " + name + ", of net/http serving the same bytes", Of: rates(lists[2*i], lists[2*i+1])}
		if strings.HasPrefix(name, "10000 ") {
			r.Want = 0.9
		}
		b.add(r)
	}
	b.add(row{Group: "catalogue", What: "calls with " + names[len(names)-1] + ", of those with " + names[0], Of: rates(calls[len(calls)-1], calls[0]), Want: 0.97})
	return nil
}

// allPages waits until all tools are listed.
func (b *bench) allPages(ctx context.Context, s *system, want int) ([]*load.Target, [][]byte, error) {
	for deadline := time.Now().Add(2 * time.Minute); ; {
		targets, answers, tools, err := pages(s)
		if err == nil && tools == want {
			return targets, answers, nil
		}
		if time.Now().After(deadline) {
			return nil, nil, fmt.Errorf("%d of %d tools are listed: %w", tools, want, err)
		}
		select {
		case <-time.After(look):
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
}

// walk has each connection ask for one page after another.
func (b *bench) walk(ctx context.Context, name string, s *system, targets []*load.Target) (*contender, error) {
	return b.enterAs(ctx, name, s, b.connections, func(int) (load.Caller, error) { return load.Connect(targets...) })
}
