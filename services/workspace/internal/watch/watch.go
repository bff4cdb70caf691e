// Package watch tells which files of a root change, whoever changes them.
package watch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/busbar-mcp/busbar/services/workspace/internal/file"
	"github.com/busbar-mcp/busbar/services/workspace/internal/root"
)

const (
	// MaxDirs is the most directories of a root that are watched.
	MaxDirs = 4096
	// settle is how long changes are gathered; maxTold is the most files that are
	// told of at a time.
	settle  = 100 * time.Millisecond
	maxTold = 1000
	// levels is how deep directories are watched.
	levels = 63
)

// Watch calls changed with paths in the root, again and again until ctx ends. What
// git ignores is not watched. partly is called once, when not everything is watched
// that should be; an error says that nothing is told.
func Watch(ctx context.Context, r *root.Root, changed func(paths []string), partly func(error)) error {
	n, err := fsnotify.NewBufferedWatcher(4096)
	if err != nil {
		return err
	}
	defer func() { _ = n.Close() }()
	w := &watcher{root: r, notify: n, partly: partly, dirs: map[string]struct{}{}, pending: map[string]struct{}{}}
	w.add(ctx, ".")
	timer := time.NewTimer(settle)
	defer timer.Stop()
	timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-n.Events:
			if len(w.pending) == 0 {
				timer.Reset(settle)
			}
			w.see(ctx, e)
		case err := <-n.Errors:
			w.warn(err)
		case <-timer.C:
			paths := slices.Sorted(maps.Keys(w.pending))
			clear(w.pending)
			if len(paths) > 0 {
				changed(paths)
			}
		}
	}
}

type watcher struct {
	root   *root.Root
	notify *fsnotify.Watcher
	// partly is nil once it was called.
	partly  func(error)
	dirs    map[string]struct{}
	pending map[string]struct{}
}

func (w *watcher) warn(err error) {
	if w.partly != nil && err != nil {
		w.partly(err)
		w.partly = nil
	}
}

// see takes a change. A new directory is watched as well, and what is in it by then
// has changed.
func (w *watcher) see(ctx context.Context, e fsnotify.Event) {
	rel, err := filepath.Rel(w.root.Dir(), e.Name)
	if err != nil || rel == "." || e.Op == fsnotify.Chmod {
		return
	}
	rel = filepath.ToSlash(rel)
	if strings.HasPrefix(path.Base(rel), file.TemporaryPrefix) {
		return
	}
	_, known := w.dirs[rel]
	info, err := w.root.FS.Lstat(rel)
	switch {
	case err == nil && info.IsDir():
		if e.Has(fsnotify.Create) {
			w.add(ctx, rel)
		}
	case known:
		w.forget(rel)
	default:
		w.note(rel)
	}
}

// forget ends the watches of a directory that is gone or has another name, and of
// those in it, which are still there if it was moved.
func (w *watcher) forget(rel string) {
	for dir := range w.dirs {
		if dir == rel || strings.HasPrefix(dir, rel+"/") {
			delete(w.dirs, dir)
			_ = w.notify.Remove(filepath.Join(w.root.Dir(), filepath.FromSlash(dir))) // it may have gone by itself
		}
	}
}

func (w *watcher) note(rel string) {
	if len(w.pending) < maxTold {
		w.pending[rel] = struct{}{}
	}
}

// add watches a directory and those in it. Files in a directory that is new may have
// been made before it was watched.
func (w *watcher) add(ctx context.Context, rel string) {
	if path.Base(rel) == ".git" {
		return
	}
	w.one(rel)
	p := root.Place{Root: w.root, FS: w.root.FS, Path: rel, At: "."}
	_ = file.Walk(ctx, p, file.Options{Depth: levels}, func(e file.Entry) error { // it may be gone
		switch {
		case e.Mode.IsDir():
			w.one(e.Place.Path)
		case rel != ".":
			w.note(e.Place.Path)
		}
		return nil
	})
}

func (w *watcher) one(rel string) {
	if len(w.dirs) >= MaxDirs {
		w.warn(fmt.Errorf("more than %d directories: the others are not watched", MaxDirs))
		return
	}
	switch err := w.notify.Add(filepath.Join(w.root.Dir(), filepath.FromSlash(rel))); {
	case err == nil:
		w.dirs[rel] = struct{}{}
	case !errors.Is(err, fs.ErrNotExist): // else it is gone
		w.warn(err)
	}
}
