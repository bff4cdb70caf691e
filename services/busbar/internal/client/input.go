package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// readArgument returns the arguments that the command line's JSON, @FILE or -
// stands for: a checked JSON object.
func readArgument(ctx context.Context, argument string, stdin io.Reader) (jsontext.Value, error) {
	text, from := []byte(argument), ""
	var err error
	switch {
	case argument == "":
		return checkArguments(nil)
	case argument == "-":
		from = "stdin"
		text, err = readInput(ctx, stdin)
	case strings.HasPrefix(argument, "@"):
		from = argument[1:]
		text, err = readFile(from)
	}
	if err != nil {
		return nil, err
	}
	if text == nil {
		text = []byte{} // empty input is a mistake, unlike no argument
	}
	args, err := checkArguments(text)
	var usage *UsageError
	if errors.As(err, &usage) && from != "" {
		return nil, &UsageError{Message: from + ": " + usage.Message}
	}
	return args, err
}

// readFile reads a file that the user named.
func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err == nil {
		defer func() { _ = f.Close() }()
		var text []byte
		if text, err = readBounded(f); err == nil {
			return text, nil
		}
	}
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err // without the name again
	}
	return nil, &UsageError{Message: fmt.Sprintf("cannot read %q: %v", name, err)}
}

// readInput reads stdin.
func readInput(ctx context.Context, stdin io.Reader) ([]byte, error) {
	text, err := readAll(ctx, stdin)
	if err != nil && ctx.Err() == nil {
		err = &UsageError{Message: "cannot read stdin: " + err.Error()}
	}
	return text, err
}

// readBounded reads as much as a request may have, and refuses more.
func readBounded(r io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxMessage+1))
	if err == nil && len(text) > maxMessage {
		err = fmt.Errorf("it is larger than %d MiB", maxMessage>>20)
	}
	return text, err
}

// readAll reads until the end or until ctx is done: a terminal may never end.
// Input that comes later is read and dropped.
func readAll(ctx context.Context, r io.Reader) ([]byte, error) {
	type read struct {
		text []byte
		err  error
	}
	done := make(chan read, 1)
	go func() {
		text, err := readBounded(r)
		done <- read{text, err}
	}()
	select {
	case got := <-done:
		return got.text, got.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
