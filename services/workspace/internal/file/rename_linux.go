package file

import (
	"errors"
	"os"
	"path"
	"syscall"

	"github.com/busbar-mcp/busbar/services/workspace/internal/root"
)

// rename moves from to to, whose directories are open as source and target: whoever
// exchanges one of them for a link meanwhile changes nothing here.
func rename(from, to root.Place, source, target *os.Root) error {
	a, err := source.Open(".")
	if err != nil {
		return err
	}
	defer func() { _ = a.Close() }()
	b, err := target.Open(".")
	if err != nil {
		return err
	}
	defer func() { _ = b.Close() }()
	for {
		err := syscall.Renameat(int(a.Fd()), path.Base(from.Path), int(b.Fd()), path.Base(to.Path))
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, syscall.EINTR):
			return &os.LinkError{Op: "renameat", Old: from.Path, New: to.Path, Err: err}
		}
	}
}
