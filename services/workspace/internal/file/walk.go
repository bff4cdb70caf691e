package file

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/workspace/internal/root"
)

const (
	// maxEntries is how many entries of a directory are read.
	//limit:files entries of one directory | `filesystem_list` fails; others leave the rest out
	maxEntries = 50_000
	// maxLevels is the largest depth of a walk.
	maxLevels = 64
	// maxIgnore is the largest .gitignore that counts, in bytes; maxPatterns its largest
	// number of lines.
	maxIgnore   = 64 << 10
	maxPatterns = 2_000
)

// Entry is an entry of a directory.
type Entry struct {
	Place root.Place
	Name  string
	// Depth is 0 in the directory where the walk began.
	Depth int
	Mode  fs.FileMode
	// Cut: the directory has more entries than were read.
	Cut bool
	// near is the same place relative to its own directory, which is open during the
	// visit: access costs one step, however deep the directory lies.
	near root.Place
}

// Options configures a walk.
type Options struct {
	// Everything includes ignored files and the .git directory.
	Everything bool
	// Depth is how many levels of directories are entered; 0 means the first only.
	Depth int
	// Unread, if not nil, is called for each directory that exists but cannot be read.
	Unread func(root.Place) error
}

// ErrStop, returned by a visit, ends the walk, and Walk returns nil. fs.SkipDir, returned by a visit,
// skips the directory.
var ErrStop = errors.New("stop")

// Walk visits the entries of a directory and of its subdirectories, ordered by name. It visits links but
// does not follow them. A directory that cannot be read is visited but not entered. Each directory is
// opened from the one above it, so the work is in proportion to the entries, not to their depth.
func Walk(ctx context.Context, p root.Place, o Options, visit func(Entry) error) error {
	w := &walk{ctx: ctx, options: o, visit: visit}
	var ignored Ignore
	if !o.Everything {
		for at := "."; at != p.Path; at = path.Join(at, first(p.Path, at)) {
			ignored = ignored.With(root.Place{Root: p.Root, FS: p.FS, Path: at, At: p.At}, at)
		}
		for at := p.Path; at != "."; at = path.Dir(at) {
			if ignored.Matches(at, true) {
				ignored = nil // the caller named it
			}
		}
	}
	dir, err := Open(p)
	if err != nil {
		return explain(p, err)
	}
	defer dir.Close()
	err = w.dir(p, dir, ignored, 0)
	if errors.Is(err, ErrStop) {
		return nil
	}
	return err
}

// first returns the element of p that follows at.
func first(p, at string) string {
	rest, _ := strings.CutPrefix(p, strings.TrimPrefix(at+"/", "./"))
	name, _, _ := strings.Cut(rest, "/")
	return name
}

type walk struct {
	ctx     context.Context
	options Options
	visit   func(Entry) error
}

// dir visits the entries of an open directory. p is its place in the root.
func (w *walk) dir(p root.Place, dir *Dir, ignored Ignore, depth int) error {
	if !w.options.Everything {
		ignored = ignored.With(dir.Place, p.Path)
	}
	for _, e := range dir.Entries {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		at := p.In(e.Name())
		if !w.options.Everything && (e.Name() == ".git" || ignored.Matches(at.Path, e.IsDir())) {
			continue
		}
		err := w.visit(Entry{Place: at, Name: e.Name(), Depth: depth, Mode: e.Type(), Cut: dir.Cut, near: dir.Place.In(e.Name())})
		if errors.Is(err, fs.SkipDir) {
			continue
		}
		if err != nil {
			return err
		}
		if !e.IsDir() || depth >= w.options.Depth {
			continue
		}
		inner, err := Open(dir.Place.In(e.Name()))
		switch {
		case err == nil:
			err = w.dir(at, inner, ignored, depth+1)
			inner.Close()
		case w.options.Unread != nil && !errors.Is(err, fs.ErrNotExist):
			err = w.options.Unread(at)
		default:
			err = nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Dir is an open directory with its entries, ordered by name. Close it after use.
type Dir struct {
	// Place is the directory relative to itself: its path is ".".
	Place root.Place
	// Entries has at most 50,000 entries; Cut is set if there are more.
	Entries []fs.DirEntry
	Cut     bool
}

// Open opens a directory and reads its entries.
func Open(p root.Place) (*Dir, error) {
	// With the dot, a pipe is an error and is not opened.
	dir, err := p.FS.OpenRoot(p.Path + "/.")
	if err != nil {
		if info, statErr := p.FS.Stat(p.Path); statErr == nil && !info.IsDir() {
			err = notDir(p, info)
		}
		return nil, err
	}
	d := &Dir{Place: root.Place{Root: p.Root, FS: dir, Path: ".", At: p.Full()}}
	if d.Entries, d.Cut, err = readDir(d.Place); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// Close closes the directory.
func (d *Dir) Close() { _ = d.Place.FS.Close() }

// readDir reads the entries of a directory, ordered by name.
func readDir(p root.Place) (entries []fs.DirEntry, cut bool, err error) {
	dir, err := openDir(p)
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = dir.Close() }()
	entries, err = dir.ReadDir(maxEntries + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, false, err
	}
	if cut = len(entries) > maxEntries; cut {
		entries = entries[:maxEntries]
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, cut, nil
}

// ReadDir describes the entries of a directory, ordered by name; a link is described itself. More entries
// than maxEntries are an error.
func ReadDir(dir *os.Root, p string) ([]fs.FileInfo, error) {
	at := root.Place{Root: &root.Root{}, FS: dir, Path: p}
	entries, cut, err := readDir(at)
	if err != nil {
		return nil, err
	}
	if cut {
		return nil, service.Errorf("a directory has more than %d entries, which is the limit", maxEntries)
	}
	all := make([]fs.FileInfo, 0, len(entries))
	for _, e := range entries {
		info, err := dir.Lstat(path.Join(p, e.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, err
		}
		all = append(all, info)
	}
	return all, nil
}

// openDir opens a directory for reading, as carefully as open.
func openDir(p root.Place) (*os.File, error) {
	info, err := p.FS.Stat(p.Path)
	if err == nil && !info.IsDir() {
		err = notDir(p, info)
	}
	if err != nil {
		return nil, err
	}
	dir, err := p.FS.OpenFile(p.Path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err = dir.Stat(); err == nil && !info.IsDir() {
		err = service.Errorf("%s was replaced meanwhile; try again", p)
	}
	if err != nil {
		_ = dir.Close()
		return nil, err
	}
	return dir, nil
}

func notDir(p root.Place, info fs.FileInfo) error {
	return service.Errorf("%s is a %s, not a directory", p, Type(info.Mode()))
}
