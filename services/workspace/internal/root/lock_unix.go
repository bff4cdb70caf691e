//go:build unix

package root

import (
	"context"
	"errors"
	"syscall"
	"time"
)

// lockProcesses keeps other processes of this service from changing the root: an
// advisory lock on the directory itself, so that no file has to be there for it.
func (r *Root) lockProcesses(ctx context.Context) (release func(), err error) {
	dir, err := r.FS.Open(".")
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil, errors.Is(err, syscall.ENOTSUP), errors.Is(err, syscall.ENOLCK):
			return func() { _ = dir.Close() }, nil // which unlocks
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
