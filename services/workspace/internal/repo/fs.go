package repo

import (
	"bytes"
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"github.com/go-git/go-billy/v5"

	"github.com/busbar-mcp/busbar/services/workspace/internal/file"
	"github.com/busbar-mcp/busbar/services/workspace/internal/root"
)

// confined is a .git directory for go-git. All access goes through an os.Root, so nothing outside the
// directory is touched, whatever the repository says. It ends with its context, so unwanted work stops.
// go-git sees no worktree.
type confined struct {
	ctx context.Context
	dir *os.Root
	// below is the directory in dir to which paths are relative.
	below string
}

// maxGitFile is the largest file of a git directory that is opened, in bytes. Git needs no larger ones.
const maxGitFile = 64 << 20

var looseObject = regexp.MustCompile(`(^|/)objects/[0-9a-f]{2}/[0-9a-f]{38,62}$`)

func (c *confined) at(name string) (string, error) {
	if err := c.ctx.Err(); err != nil {
		return "", err
	}
	return path.Join(c.below, path.Clean("/" + filepath.ToSlash(name))[1:]), nil
}

// local is at, with "." for the directory itself.
func (c *confined) local(name string) (string, error) {
	p, err := c.at(name)
	if p == "" {
		p = "."
	}
	return p, err
}

// change opens the directory that contains name, to change the entry.
func (c *confined) change(name string, makeDirs bool) (dir *os.Root, last string, err error) {
	p, err := c.local(name)
	switch {
	case err != nil:
		return nil, "", err
	case p == ".":
		return nil, "", &fs.PathError{Op: "change", Path: name, Err: fs.ErrInvalid}
	}
	return root.Parent(c.dir, p, makeDirs)
}

func (c *confined) Create(name string) (billy.File, error) {
	return c.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
}

func (c *confined) Open(name string) (billy.File, error) { return c.OpenFile(name, os.O_RDONLY, 0) }

func (c *confined) OpenFile(name string, flag int, perm os.FileMode) (billy.File, error) {
	if flag&(os.O_WRONLY|os.O_RDWR|os.O_CREATE|os.O_TRUNC|os.O_APPEND) == 0 {
		return c.read(name)
	}
	dir, last, err := c.change(name, flag&os.O_CREATE != 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }()
	if info, err := dir.Lstat(last); err == nil && !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "write", Path: name, Err: fs.ErrPermission}
	}
	f, err := dir.OpenFile(last, flag|syscall.O_NONBLOCK, perm)
	if err != nil {
		return nil, err
	}
	return &openFile{f, name, c.ctx}, nil
}

func (c *confined) read(name string) (billy.File, error) {
	p, err := c.local(name)
	if err != nil {
		return nil, err
	}
	info, err := c.dir.Stat(p)
	if err != nil {
		return nil, err
	}
	if err := c.bounded(name, info); err != nil {
		return nil, err
	}
	f, err := c.dir.OpenFile(p, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err = f.Stat(); err == nil {
		err = c.bounded(name, info)
	}
	if err == nil && looseObject.MatchString(name) {
		err = inflates(f)
	}
	if err == nil && path.Clean("/"+name) == "/index" {
		err = fits(f)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return &openFile{f, name, c.ctx}, nil
}

// bounded refuses entries that are not regular files, and git files that would fill the memory.
func (c *confined) bounded(name string, info fs.FileInfo) error {
	switch {
	case info.IsDir():
		return &fs.PathError{Op: "read", Path: name, Err: syscall.EISDIR}
	case !info.Mode().IsRegular():
		return &fs.PathError{Op: "read", Path: name, Err: fs.ErrPermission}
	}
	if info.Size() > maxGitFile {
		return fmt.Errorf("%w: %d bytes", errLarge, info.Size())
	}
	return nil
}

// inflates checks that a loose object is within the size limit, whatever its header says: go-git trusts
// the header.
func inflates(f *os.File) error {
	z, err := zlib.NewReader(f)
	if err != nil {
		return err
	}
	defer func() { _ = z.Close() }()
	header := make([]byte, 32)
	n, err := io.ReadFull(z, header)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	if !bytes.Contains(header[:n], []byte{0}) {
		return errors.New("a loose object has no header")
	}
	size, err := io.Copy(io.Discard, io.LimitReader(z, maxObject+1))
	if err != nil {
		return err
	}
	if size > maxObject {
		return errLarge
	}
	_, err = f.Seek(0, io.SeekStart)
	return err
}

func (c *confined) Stat(name string) (os.FileInfo, error) {
	p, err := c.local(name)
	if err != nil {
		return nil, err
	}
	return c.dir.Stat(p)
}

func (c *confined) Lstat(name string) (os.FileInfo, error) {
	p, err := c.local(name)
	if err != nil {
		return nil, err
	}
	return c.dir.Lstat(p)
}

func (c *confined) Readlink(name string) (string, error) {
	p, err := c.local(name)
	if err != nil {
		return "", err
	}
	return c.dir.Readlink(p)
}

func (c *confined) Rename(from, to string) error {
	source, _, err := c.change(from, false)
	if err != nil {
		return err
	}
	_ = source.Close()
	target, _, err := c.change(to, true)
	if err != nil {
		return err
	}
	_ = target.Close()
	a, _ := c.local(from)
	b, _ := c.local(to)
	return c.dir.Rename(a, b)
}

func (c *confined) Remove(name string) error {
	dir, last, err := c.change(name, false)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	return dir.Remove(last)
}

func (c *confined) Symlink(target, link string) error {
	dir, last, err := c.change(link, true)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	return dir.Symlink(target, last)
}

func (c *confined) Chmod(name string, mode os.FileMode) error {
	dir, last, err := c.change(name, false)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	if info, err := dir.Lstat(last); err != nil || !info.Mode().IsRegular() {
		return &fs.PathError{Op: "chmod", Path: name, Err: fs.ErrPermission}
	}
	return dir.Chmod(last, mode.Perm())
}

func (c *confined) MkdirAll(name string, _ os.FileMode) error {
	dir, _, err := c.change(path.Join(name, "x"), true)
	if err != nil {
		return err
	}
	return dir.Close()
}

func (c *confined) ReadDir(name string) ([]os.FileInfo, error) {
	p, err := c.local(name)
	if err != nil || strings.HasSuffix(p, packDir) { // packs.go reads the packs
		return nil, err
	}
	return file.ReadDir(c.dir, p)
}

func (c *confined) TempFile(dir, prefix string) (billy.File, error) {
	name := path.Join(dir, prefix+unique())
	return c.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
}

func (c *confined) Join(elements ...string) string { return path.Join(elements...) }

func (c *confined) Chroot(name string) (billy.Filesystem, error) {
	p, err := c.at(name)
	if err != nil {
		return nil, err
	}
	inner := *c
	inner.below = p
	return &inner, nil
}

// Root does not return the real path, which no repository needs.
func (c *confined) Root() string { return "/" + c.below }

// nowhere is an empty file system. Alternates of a repository are looked up there.
func nowhere(ctx context.Context, dir *os.Root) billy.Filesystem {
	return &absent{confined{ctx: ctx, dir: dir}}
}

type absent struct{ confined }

func (*absent) Stat(name string) (os.FileInfo, error) {
	return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
}

func (a *absent) Open(name string) (billy.File, error) {
	_, err := a.Stat(name)
	return nil, err
}

func (a *absent) OpenFile(name string, _ int, _ os.FileMode) (billy.File, error) { return a.Open(name) }

func (a *absent) ReadDir(name string) ([]os.FileInfo, error) {
	_, err := a.Stat(name)
	return nil, err
}

func (a *absent) Lstat(name string) (os.FileInfo, error)  { return a.Stat(name) }
func (a *absent) Chroot(string) (billy.Filesystem, error) { return a, nil }

// openFile is a file that can be used until its context ends.
type openFile struct {
	*os.File
	name string
	ctx  context.Context
}

func (f *openFile) Name() string { return f.name }

func (f *openFile) Read(p []byte) (int, error) {
	if err := f.ctx.Err(); err != nil {
		return 0, err
	}
	return f.File.Read(p)
}

func (f *openFile) ReadAt(p []byte, at int64) (int, error) {
	if err := f.ctx.Err(); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, at)
}

// Lock and Unlock do nothing: a change of the repository holds the root's lock, and index.lock, which
// other git programs honour.
func (*openFile) Lock() error   { return nil }
func (*openFile) Unlock() error { return nil }
