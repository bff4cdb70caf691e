package root

import (
	"errors"
	"io/fs"
	"iter"
	"os"
	"path"
	"strings"

	"github.com/busbar-mcp/busbar/libs/service"
)

// Parent opens the directory below top that contains a path, in order to change the path's entry. No step
// is a link, whatever other processes do meanwhile. With makeDirs, it creates missing directories. Close
// dir after use.
func Parent(top *os.Root, p string, makeDirs bool) (dir *os.Root, name string, err error) {
	if dir, err = top.OpenRoot("."); err != nil {
		return nil, "", err
	}
	above, name := path.Split(p)
	for step := range steps(above) {
		next, err := into(dir, step, makeDirs)
		_ = dir.Close()
		if err != nil {
			return nil, "", err
		}
		dir = next
	}
	return dir, name, nil
}

// into opens a directory in another one, unless it is a link.
func into(dir *os.Root, name string, makeDirs bool) (*os.Root, error) {
	info, err := dir.Lstat(name)
	if makeDirs && errors.Is(err, fs.ErrNotExist) {
		if err = dir.Mkdir(name, 0o777); err == nil || errors.Is(err, fs.ErrExist) {
			info, err = dir.Lstat(name)
		}
	}
	switch {
	case err != nil:
		return nil, err
	case info.Mode()&fs.ModeSymlink != 0:
		return nil, service.Errorf("%s in the path is a symbolic link, and changes do not follow links; give the path without it", name)
	case !info.IsDir():
		return nil, service.Errorf("%s in the path is not a directory", name)
	}
	next, err := dir.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	opened, err := next.Stat(".")
	if err == nil && !os.SameFile(info, opened) {
		err = service.Errorf("%s in the path was replaced meanwhile; try again", name)
	}
	if err != nil {
		_ = next.Close()
		return nil, err
	}
	return next, nil
}

// steps yields the elements of a path that ends in a slash, or is empty.
func steps(p string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for s := range strings.SplitSeq(p, "/") {
			if s != "" && !yield(s) {
				return
			}
		}
	}
}
