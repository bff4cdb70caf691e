package file

import (
	"errors"
	"os"
	"path"
	"syscall"

	"github.com/busbar-mcp/busbar/services/workspace/internal/root"
)

// rename moves from to to in the open directories source and target, so replacing one of these directories
// by a link meanwhile has no effect.
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
