package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// readArgument returns the arguments that the command line's JSON, @FILE or -
// stands for: a checked JSON object.
func readArgument(ctx context.Context, argument string, stdin io.Reader) ([]byte, error) {
	text, from := []byte(argument), ""
	var err error
	switch {
	case argument == "":
		text = nil
	case argument == "-":
		from = "stdin"
		if text, err = readAll(ctx, stdin); err != nil {
			if ctx.Err() != nil {
				return nil, err
			}
			return nil, &UsageError{Message: "cannot read stdin: " + err.Error()}
		}
	case strings.HasPrefix(argument, "@"):
		from = argument[1:]
		if text, err = os.ReadFile(from); err != nil {
			var path *fs.PathError
			if errors.As(err, &path) {
				err = path.Err // without the name again
			}
			return nil, &UsageError{Message: fmt.Sprintf("cannot read %q: %v", from, err)}
		}
	}
	if text == nil && argument != "" {
		text = []byte{} // empty input is a mistake, unlike no argument
	}
	args, err := checkArguments(text)
	var usage *UsageError
	if errors.As(err, &usage) && from != "" {
		return nil, &UsageError{Message: from + ": " + usage.Message}
	}
	return args, err
}

// readAll reads until the end or until ctx is done: a terminal may never end.
// What it waits for then is read when it comes, or never, and dropped.
func readAll(ctx context.Context, r io.Reader) ([]byte, error) {
	type read struct {
		text []byte
		err  error
	}
	done := make(chan read, 1)
	go func() {
		text, err := io.ReadAll(r)
		done <- read{text, err}
	}()
	select {
	case got := <-done:
		return got.text, got.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
