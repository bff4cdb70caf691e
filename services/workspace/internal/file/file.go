// Package file reads, finds and changes files at places of a root. Reading follows
// links that stay in the root; what changes something follows none.
package file

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"syscall"

	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/workspace/internal/root"
)

// MaxFile is the most bytes of a file that is read or written whole.
const MaxFile = 8 << 20

// Content is a file that was read.
type Content struct {
	Data   []byte
	Info   fs.FileInfo
	Digest string
}

// Digest is how the content of a file is named: by ifMatch, and in results.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Read reads a plain file. Its errors are for the caller; if there is no such file, the
// error is fs.ErrNotExist too.
func Read(p root.Place) (Content, error) {
	data, info, err := readAll(p)
	if err != nil {
		return Content{}, err
	}
	return Content{Data: data, Info: info, Digest: Digest(data)}, nil
}

// readAll is Read without the digest, which costs more than the reading.
func readAll(p root.Place) ([]byte, fs.FileInfo, error) {
	f, info, err := open(p)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = f.Close() }()
	if info.Size() > MaxFile {
		return nil, nil, errTooLarge(p, info.Size())
	}
	// One byte more than its size: the file may have grown.
	data := make([]byte, 0, info.Size()+1)
	for len(data) <= MaxFile {
		if len(data) == cap(data) {
			data = slices.Grow(data, len(data))
		}
		n, err := f.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		if errors.Is(err, io.EOF) {
			return data, info, nil
		}
		if err != nil {
			return nil, nil, explain(p, err)
		}
	}
	return nil, nil, errTooLarge(p, int64(len(data)))
}

// errLarge marks that a file is larger than what is read.
var errLarge = errors.New("too large")

func errTooLarge(p root.Place, size int64) error {
	return errors.Join(service.Errorf("%s has %d bytes, more than the %d MiB of a file that are read", p, size, MaxFile>>20), errLarge)
}

// open opens a plain file to read.
func open(p root.Place) (*os.File, fs.FileInfo, error) {
	// A device may do something when it is opened, so it is not.
	info, err := p.FS.Stat(p.Path)
	if err == nil {
		err = plain(p, info)
	}
	if err != nil {
		return nil, nil, explain(p, err)
	}
	// Opening what became a pipe meanwhile must not wait for its other end.
	f, err := p.FS.OpenFile(p.Path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, explain(p, err)
	}
	if info, err = f.Stat(); err == nil {
		err = plain(p, info)
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, explain(p, err)
	}
	return f, info, nil
}

// plain refuses what is no plain file.
func plain(p root.Place, info fs.FileInfo) error {
	switch {
	case info.Mode().IsRegular():
		return nil
	case info.IsDir():
		return service.Errorf("%s is a directory: filesystem_list shows what is in it", p)
	}
	return service.Errorf("%s is a %s: only plain files are read and written", p, Type(info.Mode()))
}

// Type is what something is: file, dir, symlink, or what nobody can read or write
// here.
func Type(m fs.FileMode) string {
	switch {
	case m.IsRegular():
		return "file"
	case m.IsDir():
		return "dir"
	case m&fs.ModeSymlink != 0:
		return "symlink"
	case m&fs.ModeNamedPipe != 0:
		return "pipe"
	case m&fs.ModeSocket != 0:
		return "socket"
	}
	return "device"
}

// explain says to the caller what an operation at a place met. The error of the
// system has the directory of the root in it, and stays here.
func explain(p root.Place, err error) error {
	if err == nil {
		return nil
	}
	var system *fs.PathError
	var link *os.LinkError
	if !errors.As(err, &system) && !errors.As(err, &link) {
		return err
	}
	var words string
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		words, err = "does not exist", errors.Join(err, fs.ErrNotExist)
	case errors.Is(err, fs.ErrPermission):
		words = "may not be touched by the service: the file system forbids it"
	case errors.Is(err, fs.ErrExist):
		words = "exists already"
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		words = "could not be written: the disk is full"
	case errors.Is(err, syscall.EROFS):
		words = "could not be written: the file system is read-only"
	case errors.Is(err, syscall.ENAMETOOLONG):
		words = "has a name that is too long"
	case errors.Is(err, syscall.ELOOP):
		words = "is behind too many symbolic links"
	case errors.Is(err, syscall.ENOTEMPTY):
		words = "is not empty"
	case system != nil && system.Err.Error() == "path escapes from parent":
		words = "leads out of the workspace by a symbolic link"
	default:
		return err // the log's: the caller learns that the service failed
	}
	return errors.Join(service.Errorf("%s %s", p, words), err)
}

// parent is root.Parent for what the tools of files change, which is nothing in .git and
// .busbar.
func parent(p root.Place, makeDirs bool) (dir *os.Root, name string, err error) {
	if p.Path == "." {
		return nil, "", service.Errorf("%s is the directory that is open to you: it is not changed itself", p)
	}
	if g := root.Guarded(p.Full()); g != "" {
		return nil, "", service.Errorf("nothing in %s is changed by these tools; what git keeps there, the git tools change, and .busbar is for people", g)
	}
	if at := root.Repository(p); at != "" {
		return nil, "", service.Errorf("%s is a git directory, or would become one: what is in it says what git runs, and nothing of it is changed by these tools", at)
	}
	dir, name, err = root.Parent(p.FS, p.Path, makeDirs)
	return dir, name, explain(p, err)
}
