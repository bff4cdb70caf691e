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

// Absent, as ifMatch, says that the file must not exist yet.
const Absent = "absent"

// Written is the result of Change.
type Written struct {
	// Before is the old content; nil if there was no file.
	Before, After []byte
	Created       bool
	Digest        string
}

// Change replaces a file by the result of change, all at once or not at all: a concurrent reader sees the
// old or the new content. change receives nil if there is no file, and its error is returned. ifMatch is
// the digest that the file must have, Absent, or empty.
func Change(ctx context.Context, p root.Place, ifMatch string, change func(before []byte) ([]byte, error)) (w Written, err error) {
	unlock, err := p.Lock(ctx)
	if err != nil {
		return w, err
	}
	defer unlock()
	// Directories are created only if the file will be written.
	if w.Before, _, err = current(p, ifMatch); err != nil {
		return w, err
	}
	if w.After, err = change(w.Before); err != nil {
		return w, err
	}
	if len(w.After) > MaxFile {
		return w, service.Errorf("%s would have %d bytes; the limit is %d MiB", p, len(w.After), MaxFile>>20)
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
		return w, service.Errorf("%s is a symbolic link, and links are not followed for writing; write to its target, which filesystem_stat shows", p)
	default:
		if err := plain(p, info); err != nil {
			return w, err
		}
		mode = info.Mode().Perm()
	}
	w.Digest = Digest(w.After)
	return w, explain(p, replace(dir, name, w.After, mode))
}

// current returns the content at a place, checked against ifMatch.
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
			return nil, "", errors.Join(service.Errorf("%s does not exist, but ifMatch gives a digest; nothing was changed", p), fs.ErrNotExist)
		}
		return nil, "", nil
	case err != nil:
		return nil, "", err
	case ifMatch == Absent:
		return nil, "", service.Errorf("%s already exists; nothing was changed", p)
	case ifMatch != "" && ifMatch != c.Digest:
		return nil, "", service.Errorf("%s no longer matches ifMatch, its digest is %s; nothing was changed; read it again", p, c.Digest)
	}
	if c.Data == nil {
		c.Data = []byte{} // nil would mean that there is no file
	}
	return c.Data, c.Digest, nil
}

// TemporaryPrefix begins the names of temporary files, which are renamed to their final name.
const TemporaryPrefix = ".workspace-"

// replace writes a temporary file next to the file, and renames it. mode 0 means the mode of a new file.
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

// sync makes the changes in a directory survive a power loss, if the file system supports that.
func sync(dir *os.Root) {
	if d, err := dir.Open("."); err == nil {
		_ = d.Sync()
		_ = d.Close()
	}
}

// Move moves a file or directory within its root, to a path that must not exist.
func Move(ctx context.Context, from, to root.Place) error {
	if from.Root != to.Root || from.FS != to.FS {
		return service.Errorf("%s and %s are in different roots; write the file there and delete it here", from, to)
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
		return service.Errorf("%s already exists; nothing was moved", to)
	}
	// Use the directories that were checked, even if their names mean others by now.
	if err := rename(from, to, source, target); err != nil {
		return explain(from, err)
	}
	sync(source)
	sync(target)
	return nil
}

// maxDelete is the largest number of entries that one call removes.
//
//limit:files entries that one `filesystem_delete` removes | the tool fails
const maxDelete = 10_000

// Delete removes a file, a link or an empty directory; with recursive, a directory with everything in it.
// It returns the number of removed entries.
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
				err = errors.Join(service.Errorf("%s is not empty; set recursive to remove it with everything in it", p), err)
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
			return service.Errorf("%s has more than %d entries; nothing was removed; remove parts of it", p, maxDelete)
		case e.Depth == maxLevels && e.Mode.IsDir():
			return service.Errorf("%s is deeper than %d levels; nothing was removed; remove parts of it", p, maxLevels)
		case root.Guarded(e.Name) != "", e.Mode.IsDir() && root.Repository(e.Place) != "":
			return service.Errorf("%s is in it, and these tools do not remove it; nothing was removed; use git_worktree for a worktree, and ask a person to remove a repository", e.Place)
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
