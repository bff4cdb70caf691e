package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/busbar-mcp/busbar/test/faults/history"
	"github.com/busbar-mcp/busbar/test/faults/load"
	"github.com/busbar-mcp/busbar/test/faults/oracle"
)

// disk is a small one, of parts that are away together when it is full.
type disk struct {
	part string
	size int64
}

// A PostgreSQL server and its log need 60 MiB when it starts; a NATS server needs hardly anything.
var (
	serverDisks = [][]disk{
		{{"database", 192 << 20}},
		{{"nats-2", 64 << 20}},
		{{"nats-1", 64 << 20}, {"nats-2", 64 << 20}, {"nats-3", 64 << 20}},
	}
	sqliteDisk = [][]disk{{{"resource", 16 << 20}}}
)

// mount gives parts disks of their own, in memory. Where this user may not, the figure is
// skipped.
func mount(all [][]disk) func(context.Context, *world) error {
	return func(_ context.Context, w *world) error {
		for _, d := range slices.Concat(all...) {
			at := w.fleet.Volume(d.part)
			if slices.Contains(w.disks, at) {
				continue
			}
			if err := os.MkdirAll(at, 0o755); err != nil {
				return err
			}
			switch err := syscall.Mount("tmpfs", at, "tmpfs", 0, fmt.Sprintf("size=%d,mode=755", d.size)); {
			case errors.Is(err, syscall.EPERM):
				return nil
			case err != nil:
				return fmt.Errorf("mount a disk at %s: %w", at, err)
			}
			w.disks = append(w.disks, at)
		}
		return nil
	}
}

func (w *world) unmount() (err error) {
	for _, at := range w.disks {
		err = errors.Join(err, syscall.Unmount(at, syscall.MNT_DETACH))
	}
	return err
}

// filled has the disks of parts full while f runs, whatever they remove meanwhile.
func (w *world) filled(ctx context.Context, parts []string, f func()) error {
	var fillers []*os.File
	defer func() {
		for _, file := range fillers {
			_ = file.Close()
			_ = os.Remove(file.Name())
		}
	}()
	for _, part := range parts {
		file, err := os.Create(filepath.Join(w.fleet.Volume(part), "filler"))
		if err != nil {
			return err
		}
		fillers = append(fillers, file)
	}
	filling, enough := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- fill(filling, fillers) }()
	f()
	enough()
	return <-ended
}

// fill takes all free space, and space that becomes free.
func fill(ctx context.Context, files []*os.File) error {
	some := make([]byte, 64<<10)
	for ctx.Err() == nil {
		for _, file := range files {
			for {
				if _, err := file.Write(some); errors.Is(err, syscall.ENOSPC) {
					break
				} else if err != nil {
					return err
				}
			}
		}
		_ = pause(ctx, 20*time.Millisecond)
	}
	return nil
}

// restored waits until everything is as before, and restarts the parts as an operator does
// where it does not become so by itself.
func (w *world) restored(ctx context.Context, parts []string) (restarted bool, err error) {
	whole := func(ctx context.Context) error {
		err := w.usable(ctx)
		for err == nil {
			if err = w.check(ctx); err == nil || pause(ctx, 500*time.Millisecond) != nil {
				return err
			}
			err = nil
		}
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if whole(waiting) == nil {
		return false, ctx.Err()
	}
	for _, part := range parts {
		if err := w.fleet.Stop(part); err != nil {
			return true, err
		}
		if err := w.fleet.Start(ctx, part); err != nil {
			return true, err
		}
	}
	waiting, cancel = context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	return true, whole(waiting)
}

// fillDisks fills disks for a while, one set after the other. The answers to clients are judged:
// reads go on, and a write that is refused without a key did not run.
func fillDisks(all [][]disk) func(context.Context, *world) error {
	return func(ctx context.Context, w *world) error {
		if len(w.disks) == 0 {
			w.result.row("skipped", "", "this user may not mount: run it as root, or in a container of its own")
			return nil
		}
		full := 8 * time.Second
		if w.full {
			full = 30 * time.Second
		}
		var spans []oracle.Span
		calls, err := w.under(ctx, load.Load{}, func(ctx context.Context) error {
			for _, set := range all {
				_ = pause(ctx, 3*time.Second)
				span, err := w.fillFor(ctx, set, full)
				spans = append(spans, span)
				if err != nil {
					return err
				}
			}
			return nil
		})
		w.whileFull(calls, spans)
		return err
	}
}

// fillFor has disks full, and waits until everything is as before.
func (w *world) fillFor(ctx context.Context, set []disk, full time.Duration) (span oracle.Span, err error) {
	var parts []string
	for _, d := range set {
		parts = append(parts, d.part)
	}
	how := "by itself"
	err = w.away(parts[0], func() error {
		span.From = time.Now()
		var said []string
		var asked error
		err := w.filled(ctx, parts, func() {
			_ = pause(ctx, full/2)
			said, asked = w.wrong(ctx)
			_ = pause(ctx, full/2)
		})
		if err = errors.Join(err, asked); err != nil {
			return err
		}
		said = append(said, "nothing") // where that is all
		w.result.row("while the disk of "+strings.Join(parts, ", ")+" is full, busbar doctor says", "what to do", "%s; %d things in all", said[0], len(said)-1)
		if span.To = time.Now(); err != nil {
			return err
		}
		restarted, err := w.restored(ctx, parts)
		if restarted {
			how = "with a restart"
		}
		return err
	})
	w.result.row(fmt.Sprintf("the disk of %s is full for %v, and everything is as before %s", strings.Join(parts, ", "), full, how),
		"", "%v after there was room", time.Since(span.To).Round(100*time.Millisecond))
	return span, err
}

func (w *world) whileFull(calls []history.Call, spans []oracle.Span) {
	reads, failed, refused, untrue := 0, 0, 0, 0
	for _, c := range calls {
		for _, t := range c.Tries {
			if !slices.ContainsFunc(spans, func(s oracle.Span) bool { return s.Overlaps(t.Began, t.Ended) }) {
				continue
			}
			switch {
			// In a session of its own a read needs the bucket of sessions.
			case (c.Kind == history.Read || c.Kind == history.ReadOnce) && c.Door != "legacy":
				if reads++; !t.OK {
					failed++
					w.result.found(oracle.Finding{Oracle: oracle.Refused, Text: fmt.Sprintf("%s %s while a disk was full: %v", c.Door, c.Kind, t.Answer)})
				}
			case !t.OK && (c.Kind == history.Write || c.Kind == history.WriteAgain || c.Kind == history.Stored):
				if refused++; c.Kind != history.Stored && t.Executed != "no" {
					untrue++
					w.result.found(oracle.Finding{Oracle: oracle.Executed, Text: fmt.Sprintf("%s %s while a disk was full: %v", c.Door, c.Kind, t.Answer)})
				}
			}
		}
	}
	w.result.row("reads that failed while a disk was full", "0", "%d of %d", failed, reads)
	w.result.row("refused writes, of those without a key not marked `executed: no`", "0", "%d, %d", refused, untrue)
}
