// Package watch reports which files of a root change, whoever changes them. Start at Watch.
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
	// MaxDirs is how many directories of a root are watched.
	//limit:files directories of a root that are watched | others are not watched
	MaxDirs = 4096
	// settle is how long changes are collected; maxTold is how many files one
	// report has at most.
	settle  = 100 * time.Millisecond
	maxTold = 1000
	// levels is how deep directories are watched.
	levels = 63
)

// Watch calls changed with paths in the root, again and again until ctx ends. It does not watch ignored
// files. It calls partly once if it cannot watch everything; an error means that it reports nothing.
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
	// partly is nil after its call.
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

// see handles a change. It also watches a new directory and reports its entries as changed.
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

// forget ends the watches of a removed or renamed directory and of those in it, which still exist if it
// was moved.
func (w *watcher) forget(rel string) {
	for dir := range w.dirs {
		if dir == rel || strings.HasPrefix(dir, rel+"/") {
			delete(w.dirs, dir)
			_ = w.notify.Remove(filepath.Join(w.root.Dir(), filepath.FromSlash(dir))) // the watch may already be gone
		}
	}
}

func (w *watcher) note(rel string) {
	if len(w.pending) < maxTold {
		w.pending[rel] = struct{}{}
	}
}

// add watches a directory and those in it. Files of a new directory may have been created before the
// watch.
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
		w.warn(fmt.Errorf("the root has more than %d directories; the others are not watched", MaxDirs))
		return
	}
	switch err := w.notify.Add(filepath.Join(w.root.Dir(), filepath.FromSlash(rel))); {
	case err == nil:
		w.dirs[rel] = struct{}{}
	case !errors.Is(err, fs.ErrNotExist): // otherwise it is gone
		w.warn(err)
	}
}
