//go:build unix

package root

import (
	"context"
	"errors"
	"syscall"
	"time"
)

// lockProcesses keeps other processes of this service from changing the root. The advisory lock is on the
// directory itself, so it needs no lock file.
func (r *Root) lockProcesses(ctx context.Context) (release func(), err error) {
	dir, err := r.FS.Open(".")
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil, errors.Is(err, syscall.ENOTSUP), errors.Is(err, syscall.ENOLCK):
			return func() { _ = dir.Close() }, nil // closing it unlocks
		case !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR):
			_ = dir.Close()
			return nil, err
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			_ = dir.Close()
			return nil, ctx.Err()
		}
	}
}
