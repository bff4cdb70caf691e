package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/test/caller"
)

const (
	writers = 4
	// settled is how many writes have to be acknowledged before a part is killed, while it
	// is away, and after it is back.
	settled = 4 * writers
)

// writer appends lines to a resource of its own, one after another, each with its idempotency
// key: a line that is lost is missing in the end, and one that ran twice is there twice.
type writer struct {
	uri          string
	acknowledged []string
	unknown      int // answers that did not say whether the line is there
}

// write makes one call until it is acknowledged; a key makes that safe.
func (w *writer) write(ctx context.Context, clients string, c caller.Call) error {
	return eventually(ctx, c.Tool+" of "+w.uri+" is acknowledged", func() error {
		a := caller.REST(ctx, clients, c)
		if !a.OK && a.Executed != "no" {
			w.unknown++
		}
		return failed(a)
	})
}

// lines appends until it is told to stop.
func (w *writer) lines(ctx context.Context, clients string, stop <-chan struct{}, count *atomic.Int64) error {
	create := caller.Call{Tool: "create_resource", Arguments: fmt.Sprintf(`{"uri":%q,"mimeType":"text/plain","text":""}`, w.uri), Key: w.uri}
	if err := w.write(ctx, clients, create); err != nil {
		return err
	}
	for n := 0; ; n++ {
		select {
		case <-stop:
			return nil
		default:
		}
		line := fmt.Sprintf("line %d\n", n)
		c := caller.Call{Tool: "update_resource", Arguments: fmt.Sprintf(`{"uri":%q,"append":true,"text":%s}`, w.uri, caller.Quoted(line)), Key: fmt.Sprint(w.uri, "#", n)}
		if err := w.write(ctx, clients, c); err != nil {
			return err
		}
		w.acknowledged = append(w.acknowledged, line)
		count.Add(1)
	}
}

// verify reads the resource back.
func (w *writer) verify(ctx context.Context, clients string) error {
	a := caller.REST(ctx, clients, caller.Call{Tool: "read_resource", Arguments: fmt.Sprintf(`{"uri":%q,"limit":1048576}`, w.uri)})
	if !a.OK {
		return failed(a)
	}
	var is struct {
		Text string `json:"text"`
	}
	if err := json.Unmarshal([]byte(a.Text), &is); err != nil {
		return fmt.Errorf("%w: %.200s", err, a.Text)
	}
	if want := strings.Join(w.acknowledged, ""); is.Text != want {
		return fmt.Errorf("%s: %d lines are there, %d were acknowledged:\n%s", w.uri, strings.Count(is.Text, "\n"), len(w.acknowledged), is.Text)
	}
	return nil
}

// kill kills parts, one after another, while clients write, and starts them again; then it
// reads back what was written.
func (p *project) kill(ctx context.Context, f fleet) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		all   [writers]writer
		ended sync.WaitGroup
		count atomic.Int64
		stop  = make(chan struct{})
	)
	for i := range all {
		w := &all[i]
		w.uri = fmt.Sprintf("note://compose/%s/%d", f.profile, i)
		ended.Go(func() {
			if err := w.lines(ctx, p.clients, stop, &count); err != nil {
				cancel(err)
			}
		})
	}
	err := p.killEach(ctx, f, &count)
	close(stop)
	ended.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return errors.Join(cause, err)
	}
	if err != nil {
		return err
	}
	unknown := 0
	for i := range all {
		if err := eventually(ctx, "what was acknowledged is there once", func() error { return all[i].verify(ctx, p.clients) }); err != nil {
			return err
		}
		unknown += all[i].unknown
	}
	said("%s: %d of %d keyed writes are there, once, after the kill of %s; %d answers on the way were unknown", f.profile, count.Load(), count.Load(), strings.Join(f.kill, ", "), unknown)
	return nil
}

func (p *project) killEach(ctx context.Context, f fleet, count *atomic.Int64) error {
	more := func(what string) error {
		want := count.Load() + settled
		return eventually(ctx, what, func() error {
			if n := count.Load(); n < want {
				return fmt.Errorf("%d writes, want %d", n, want)
			}
			return nil
		})
	}
	for _, name := range f.kill {
		if err := more("writes go through"); err != nil {
			return err
		}
		if _, err := p.compose(ctx, "kill", name); err != nil {
			return err
		}
		if f.large {
			if err := more("writes go on without " + name); err != nil {
				return err
			}
		}
		if err := p.up(ctx); err != nil {
			return err
		}
		if err := more("writes go on with " + name + " again"); err != nil {
			return err
		}
	}
	return nil
}
