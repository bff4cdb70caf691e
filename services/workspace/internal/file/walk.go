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

	"github.com/go-git/go-git/v5/plumbing/format/gitignore"

	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/workspace/internal/root"
)

const (
	// maxEntries is the most entries of a directory that are looked at.
	maxEntries = 50_000
	// maxLevels is how deep a walk goes at most.
	maxLevels = 64
	// maxIgnore is the most bytes of a .gitignore that count, maxPatterns the most
	// lines.
	maxIgnore   = 64 << 10
	maxPatterns = 2_000
)

// Entry is something in a directory.
type Entry struct {
	Place root.Place
	Name  string
	// Depth is 0 for what is in the directory where the walk began.
	Depth int
	Mode  fs.FileMode
	// Cut says that the directory has more than are looked at.
	Cut bool
}

// Options are those of a walk.
type Options struct {
	// Everything includes what git ignores, and its own directory.
	Everything bool
	// Depth is how many levels of directories are gone into; 0 is the first alone.
	Depth int
	// Unread, if it is not nil, is told of directories that are there and cannot be read.
	Unread func(root.Place) error
}

// ErrStop as the error of a visit ends a walk; Walk then returns nil. After fs.SkipDir
// a directory is not gone into.
var ErrStop = errors.New("stop")

// Walk visits what is in a directory, and in directories in it, in the order of
// their names. Links are visited and not followed. A directory that cannot be read
// on the way is visited and passed over.
func Walk(ctx context.Context, p root.Place, o Options, visit func(Entry) error) error {
	w := &walk{ctx: ctx, options: o, visit: visit}
	var ignored ignore
	if !o.Everything {
		for at := "."; at != p.Path; at = path.Join(at, first(p.Path, at)) {
			ignored = ignored.with(root.Place{Root: p.Root, FS: p.FS, Path: at, At: p.At})
		}
		if ignored.matches(p.Path, true) {
			ignored = nil // it was asked for by name
		}
	}
	entries, cut, err := readDir(p)
	if err != nil {
		return explain(p, err)
	}
	err = w.dir(p, entries, cut, ignored, 0)
	if errors.Is(err, ErrStop) {
		return nil
	}
	return err
}

// first is the element of p that comes after at.
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

func (w *walk) dir(p root.Place, entries []fs.DirEntry, cut bool, ignored ignore, depth int) error {
	if !w.options.Everything {
		ignored = ignored.with(p)
	}
	for _, e := range entries {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		at := p.In(e.Name())
		if !w.options.Everything && (e.Name() == ".git" || ignored.matches(at.Path, e.IsDir())) {
			continue
		}
		err := w.visit(Entry{Place: at, Name: e.Name(), Depth: depth, Mode: e.Type(), Cut: cut})
		if errors.Is(err, fs.SkipDir) {
			continue
		}
		if err != nil {
			return err
		}
		if !e.IsDir() || depth >= w.options.Depth {
			continue
		}
		inner, cut, err := readDir(at)
		switch {
		case err == nil:
			err = w.dir(at, inner, cut, ignored, depth+1)
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

// readDir reads the entries of a directory, in the order of their names.
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

// ReadDir describes what is in a directory, links as themselves, in the order of
// their names. More than are looked at are an error.
func ReadDir(dir *os.Root, p string) ([]fs.FileInfo, error) {
	at := root.Place{Root: &root.Root{}, FS: dir, Path: p}
	entries, cut, err := readDir(at)
	if err != nil {
		return nil, err
	}
	if cut {
		return nil, service.Errorf("a directory has more than %d entries", maxEntries)
	}
	all := make([]fs.FileInfo, 0, len(entries))
	for _, e := range entries {
		info, err := dir.Lstat(path.Join(p, e.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // gone meanwhile
		}
		if err != nil {
			return nil, err
		}
		all = append(all, info)
	}
	return all, nil
}

// openDir opens a directory to read, with the care of open.
func openDir(p root.Place) (*os.File, error) {
	info, err := p.FS.Stat(p.Path)
	if err == nil && !info.IsDir() {
		err = service.Errorf("%s is a %s and no directory", p, Type(info.Mode()))
	}
	if err != nil {
		return nil, err
	}
	dir, err := p.FS.OpenFile(p.Path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err = dir.Stat(); err == nil && !info.IsDir() {
		err = service.Errorf("%s was replaced meanwhile: try again", p)
	}
	if err != nil {
		_ = dir.Close()
		return nil, err
	}
	return dir, nil
}

// ignore is what the .gitignore files on the way to a directory say.
type ignore []gitignore.Pattern

// with adds what the file in a directory says.
func (i ignore) with(p root.Place) ignore {
	f, info, err := open(p.In(".gitignore"))
	if err != nil {
		return i
	}
	defer func() { _ = f.Close() }()
	if info.Size() > maxIgnore {
		return i
	}
	data, err := io.ReadAll(io.LimitReader(f, maxIgnore))
	if err != nil {
		return i
	}
	var domain []string
	if p.Path != "." {
		domain = strings.Split(p.Path, "/")
	}
	all := slices.Clip(i)
	for line := range strings.Lines(string(data)) {
		line = strings.TrimRight(line, "\r\n")
		if strings.TrimSpace(line) != "" && !strings.HasPrefix(line, "#") && len(all) < maxPatterns {
			all = append(all, gitignore.ParsePattern(line, domain))
		}
	}
	return all
}

func (i ignore) matches(p string, dir bool) bool {
	return len(i) > 0 && gitignore.NewMatcher(i).Match(strings.Split(p, "/"), dir)
}
