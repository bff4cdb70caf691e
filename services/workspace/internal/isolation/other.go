//go:build !linux

package isolation

import (
	"context"
	"errors"
	"io"
	"runtime"
)

// Find always fails: isolation needs Linux.
func Find(context.Context, Way) (Way, error) {
	return "", errors.New("commands run on Linux only, because they cannot be isolated on " + runtime.GOOS)
}

// Run always fails.
func Run(ctx context.Context, _ Way, _ Command, _ io.Writer) (Result, error) {
	_, err := Find(ctx, Auto)
	return Result{}, err
}
