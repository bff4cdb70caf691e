package file

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/workspace/internal/root"
)

// Absent as ifMatch says that there must be no such file yet.
const Absent = "absent"

// Written is what Change made of a file.
type Written struct {
	// Before is what was there; nil where nothing was.
	Before, After []byte
	Created       bool
	Digest        string
}

// Change replaces a file by what change makes of it, all at once or not at all: who
// reads meanwhile sees the old content or the new one. change gets nil for a file
// that is not there, and its error is returned. ifMatch is the digest that the file
// must have, Absent, or empty.
func Change(ctx context.Context, p root.Place, ifMatch string, change func(before []byte) ([]byte, error)) (w Written, err error) {
	unlock, err := p.Lock(ctx)
	if err != nil {
		return w, err
	}
	defer unlock()
	// Directories are made only for what is going to be written.
	if w.Before, _, err = current(p, ifMatch); err != nil {
		return w, err
	}
	if w.After, err = change(w.Before); err != nil {
		return w, err
	}
	if len(w.After) > MaxFile {
		return w, service.Errorf("%s would have %d bytes, more than the %d MiB of a file", p, len(w.After), MaxFile>>20)
	}
	dir, name, err := parent(p, true)
	if err != nil {
		return w, err
	}
	defer func() { _ = dir.Close() }()
	mode := fs.FileMode(0)
	switch info, err := dir.Lstat(name); {
	case errors.Is(err, fs.ErrNotExist):
		w.Created = true
	case err != nil:
		return w, explain(p, err)
	case info.Mode()&fs.ModeSymlink != 0:
		return w, service.Errorf("%s is a symbolic link, which is not written through: filesystem_stat says where it leads", p)
	default:
		if err := plain(p, info); err != nil {
			return w, err
		}
		mode = info.Mode().Perm()
	}
	w.Digest = Digest(w.After)
	return w, explain(p, replace(dir, name, w.After, mode))
}

// current is what is at a place, checked against ifMatch.
func current(p root.Place, ifMatch string) (before []byte, digest string, err error) {
	if dir, _, err := parent(p, false); err == nil {
		_ = dir.Close()
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, "", err
	}
	c, err := Read(p)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if ifMatch != "" && ifMatch != Absent {
			return nil, "", errors.Join(service.Errorf("%s does not exist, and ifMatch says what it has to be: nothing was changed", p), fs.ErrNotExist)
		}
		return nil, "", nil
	case err != nil:
		return nil, "", err
	case ifMatch == Absent:
		return nil, "", service.Errorf("%s exists already: nothing was changed", p)
	case ifMatch != "" && ifMatch != c.Digest:
		return nil, "", service.Errorf("%s is not what ifMatch says any more, it is %s: nothing was changed; read it again", p, c.Digest)
	}
	if c.Data == nil {
		c.Data = []byte{} // nil is for a file that is not there
	}
	return c.Data, c.Digest, nil
}

// TemporaryPrefix begins the names of files that are on their way to their place.
const TemporaryPrefix = ".workspace-"

// replace writes a file beside its place, and moves it there. mode 0 is that of a
// new file.
func replace(dir *os.Root, name string, data []byte, mode fs.FileMode) (err error) {
	var random [8]byte
	_, _ = rand.Read(random[:])
	temporary := TemporaryPrefix + hex.EncodeToString(random[:]) + ".tmp"
	f, err := dir.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = dir.Remove(temporary)
		}
	}()
	_, err = f.Write(data)
	if err == nil && mode != 0 {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err = dir.Rename(temporary, name); err != nil {
		return err
	}
	sync(dir)
	return nil
}

// sync has what was done in a directory outlive a loss of power, where the file
// system can. It is done either way.
func sync(dir *os.Root) {
	if d, err := dir.Open("."); err == nil {
		_ = d.Sync()
		_ = d.Close()
	}
}

// Move gives a file or directory another place in its root, where nothing may be.
func Move(ctx context.Context, from, to root.Place) error {
	if from.Root != to.Root || from.FS != to.FS {
		return service.Errorf("%s and %s are in different roots: write the file there, and delete it here", from, to)
	}
	if strings.HasPrefix(to.Path+"/", from.Path+"/") {
		return service.Errorf("%s cannot be moved into itself", from)
	}
	unlock, err := from.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	source, name, err := parent(from, false)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	if _, err := source.Lstat(name); err != nil {
		return explain(from, err)
	}
	target, newName, err := parent(to, true)
	if err != nil {
		return err
	}
	defer func() { _ = target.Close() }()
	if _, err := target.Lstat(newName); err == nil {
		return service.Errorf("%s exists already: nothing was moved", to)
	}
	// In the directories that were looked at, whatever has their names by now.
	if err := rename(from, to, source, target); err != nil {
		return explain(from, err)
	}
	sync(source)
	sync(target)
	return nil
}

// maxDelete is the most entries that one call removes.
const maxDelete = 10_000

// Delete removes a file, link or empty directory; with recursive a directory with
// all that is in it. It returns how many entries are gone.
func Delete(ctx context.Context, p root.Place, ifMatch string, recursive bool) (gone int, err error) {
	unlock, err := p.Lock(ctx)
	if err != nil {
		return 0, err
	}
	defer unlock()
	dir, name, err := parent(p, false)
	if err != nil {
		return 0, err
	}
	defer func() { _ = dir.Close() }()
	info, err := dir.Lstat(name)
	if err != nil {
		return 0, explain(p, err)
	}
	if ifMatch != "" {
		if _, _, err := current(p, ifMatch); err != nil {
			return 0, err
		}
	}
	if !info.IsDir() || !recursive {
		if err := dir.Remove(name); err != nil {
			err = explain(p, err)
			if info.IsDir() {
				err = errors.Join(service.Errorf("%s is a directory that is not empty: recursive removes it with all that is in it", p), err)
			}
			return 0, err
		}
		sync(dir)
		return 1, nil
	}
	gone = 1
	err = Walk(ctx, p, Options{Everything: true, Depth: maxLevels}, func(e Entry) error {
		gone++
		switch {
		case gone > maxDelete:
			return service.Errorf("%s has more than %d entries: nothing was removed; remove parts of it", p, maxDelete)
		case e.Depth == maxLevels && e.Mode.IsDir():
			return service.Errorf("%s is deeper than %d levels: nothing was removed; remove parts of it", p, maxLevels)
		case root.Guarded(e.Name) != "", e.Mode.IsDir() && root.Repository(e.Place) != "":
			return service.Errorf("%s is in there, which these tools do not remove: nothing was removed; git_worktree removes a worktree, a person a repository", e.Place)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	if err := dir.RemoveAll(name); err != nil {
		return 0, explain(p, err)
	}
	sync(dir)
	return gone, nil
}
