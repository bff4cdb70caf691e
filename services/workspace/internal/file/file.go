// Package file reads, searches and changes files at places of a root. Reading follows links that stay in
// the root; changing follows none. Start at Read and Change.
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

// MaxFile is the largest file that is read or written whole, in bytes.
//
//limit:files a file that is read, searched, edited or written | the tool fails
const MaxFile = 8 << 20

// Content is a file that was read.
type Content struct {
	Data   []byte
	Info   fs.FileInfo
	Digest string
}

// Digest returns the digest of a file's content, as used by ifMatch and in results.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Read reads a regular file. Its errors are for the caller; if the file does not exist, the error also is
// fs.ErrNotExist.
func Read(p root.Place) (Content, error) {
	data, info, err := readAll(p)
	if err != nil {
		return Content{}, err
	}
	return Content{Data: data, Info: info, Digest: Digest(data)}, nil
}

// readAll is Read without the digest, which costs more than reading.
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

// errLarge marks a file above the size limit.
var errLarge = errors.New("too large")

func errTooLarge(p root.Place, size int64) error {
	return errors.Join(service.Errorf("%s has %d bytes; only files of up to %d MiB can be read", p, size, MaxFile>>20), errLarge)
}

// open opens a regular file for reading.
func open(p root.Place) (*os.File, fs.FileInfo, error) {
	// Devices are not opened, because opening one may have an effect.
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

// plain refuses everything except regular files.
func plain(p root.Place, info fs.FileInfo) error {
	switch {
	case info.Mode().IsRegular():
		return nil
	case info.IsDir():
		return service.Errorf("%s is a directory; filesystem_list shows its entries", p)
	}
	return service.Errorf("%s is a %s; only regular files can be read and written", p, Type(info.Mode()))
}

// Type names the type of an entry: file, dir, symlink, or one that cannot be read or written here.
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

// explain turns the error of an operation at a place into one for the caller. The system's error contains
// the directory of the root, so it is not passed on.
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
		words = "cannot be accessed: the service has no permission in the file system"
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
		return err // for the log: the caller only learns that the service failed
	}
	return errors.Join(service.Errorf("%s %s", p, words), err)
}

// parent is root.Parent for the file tools, which change nothing in .git and .busbar.
func parent(p root.Place, makeDirs bool) (dir *os.Root, name string, err error) {
	if p.Path == "." {
		return nil, "", service.Errorf("%s is the top directory that you may use; only entries in it can be changed", p)
	}
	if g := root.Guarded(p.Full()); g != "" {
		return nil, "", service.Errorf("these tools change nothing in %s; use the git tools for .git, and ask a person to change .busbar", g)
	}
	if at := root.Repository(p); at != "" {
		return nil, "", service.Errorf("%s is a git directory, or would become one; these tools change nothing in it, because it decides what git runs", at)
	}
	dir, name, err = root.Parent(p.FS, p.Path, makeDirs)
	return dir, name, explain(p, err)
}
