// Package git reads files of commits in local repositories, by URIs
// git://<repository>/<revision>/<path>. It runs the git program, and passes names from the URI only
// on standard input, never as arguments. Start reading at Open and Repositories.Read.
package git

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/mediatype"
	"github.com/busbar-mcp/busbar/services/resource/internal/file"
	"github.com/busbar-mcp/busbar/services/resource/store"
)

// Scheme is the beginning of its URIs.
const Scheme = "git://"

const (
	// readTime is the time limit of one read, atOnce the number of concurrent reads.
	//limit:store a read of a `git://` URI, with its wait | `unavailable`
	readTime = 5 * time.Second
	//limit:store concurrent reads of `git://` URIs | others wait, then `overloaded`
	atOnce = 8
	// maxPath is in bytes.
	maxPath = 1024
)

// Repositories are the repositories that may be read.
type Repositories struct {
	git   string
	roots []*os.Root
	slots chan struct{}
}

// Open opens directories that contain repositories, each under its name, or that are a repository,
// under the name of the directory. Close it.
func Open(dirs []string) (*Repositories, error) {
	r := &Repositories{slots: make(chan struct{}, atOnce)}
	var err error
	if r.git, err = exec.LookPath("git"); err != nil {
		return nil, fmt.Errorf("to read repositories, git is needed: %w", err)
	}
	for _, dir := range dirs {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return nil, errors.Join(err, r.Close())
		}
		root, err := os.OpenRoot(abs)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("directory of repositories: %w", err), r.Close())
		}
		r.roots = append(r.roots, root)
	}
	return r, nil
}

// Close closes the directories.
func (r *Repositories) Close() error {
	var all error
	for _, root := range r.roots {
		all = errors.Join(all, root.Close())
	}
	return all
}

var (
	nameGrammar = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$`)
	// A name of a branch or tag, or the beginning of a commit's hash, without git's revision syntax
	// (@, ^, ~, : and blanks).
	revisionGrammar = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._+/-]{0,199}$`)
)

// Name is the file that a URI names.
type Name struct{ Repository, Revision, Path string }

// Parse reads a URI. The error is InvalidParams.
func Parse(uri string) (n Name, err error) {
	bad := fault.New(fault.InvalidParams, "a file of a commit is named git://repository/revision/path, with %%2F for slashes in the revision")
	rest, ok := strings.CutPrefix(uri, Scheme)
	parts := strings.SplitN(rest, "/", 3)
	if !ok || len(parts) != 3 || strings.ContainsAny(uri, "?#") {
		return n, bad
	}
	n.Repository = parts[0]
	if n.Revision, err = url.PathUnescape(parts[1]); err != nil {
		return n, bad
	}
	if n.Path, err = url.PathUnescape(parts[2]); err != nil {
		return n, bad
	}
	badRevision := !revisionGrammar.MatchString(n.Revision) || strings.Contains(n.Revision, "..") || strings.Contains(n.Revision, "//") ||
		strings.HasSuffix(n.Revision, "/") || strings.HasSuffix(n.Revision, ".lock")
	// git reads a line: the path must not contain a line end.
	badPath := n.Path == "" || len(n.Path) > maxPath || strings.ContainsAny(n.Path, "\n\r\x00") || strings.HasPrefix(n.Path, "/") ||
		path.Clean(n.Path) != n.Path || n.Path == "." || n.Path == ".." || strings.HasPrefix(n.Path, "../") || strings.Contains(strings.ToLower(parts[2]), "%2f")
	if !nameGrammar.MatchString(n.Repository) || badRevision || badPath {
		return n, bad
	}
	return n, nil
}

// Read reads a file at a revision. Errors are UnknownResource if there is no such repository,
// revision or file, and TooLarge beyond store.MaxContent.
func (r *Repositories) Read(ctx context.Context, uri string) (out mcp.ResourceContents, err error) {
	n, err := Parse(uri)
	if err != nil {
		return out, err
	}
	dir := r.find(n.Repository)
	if dir == "" {
		return out, store.NotFound(uri)
	}
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-ctx.Done():
		return out, fault.New(fault.Overloaded, "too many files of commits are read at once; try again shortly")
	}
	var data []byte
	commit, err := r.commit(ctx, dir, n.Revision)
	if err == nil {
		data, err = r.cat(ctx, dir, commit+":"+n.Path)
	}
	switch {
	case errors.Is(err, errNone):
		return out, store.NotFound(uri)
	case errors.Is(err, errLarge):
		return out, fault.New(fault.TooLarge, "the file has more than %d MiB", store.MaxContent>>20)
	case err != nil:
		return out, fault.New(fault.Unavailable, "the repository cannot be read").Because(err)
	}
	return file.Contents(uri, mediatype.Of(n.Path), data), nil
}

// find returns the git directory of a repository; empty for none. It accepts neither symbolic links
// nor files that point to another directory.
func (r *Repositories) find(name string) string {
	for _, root := range r.roots {
		try := []string{name + "/.git", name, name + ".git"}
		if filepath.Base(root.Name()) == name {
			try = []string{".git", "."}
		}
		for _, dir := range try {
			if plain(root, path.Dir(dir)) && plain(root, dir) && plain(root, dir+"/objects") && plain(root, dir+"/refs") {
				return filepath.Join(root.Name(), filepath.FromSlash(dir))
			}
		}
	}
	return ""
}

func plain(root *os.Root, dir string) bool {
	info, err := root.Lstat(dir)
	return err == nil && info.Mode()&fs.ModeType == fs.ModeDir
}

var (
	errNone  = errors.New("no such object")
	errLarge = errors.New("the object is too large")
)

// command returns a git command for the directory of a repository.
func (r *Repositories) command(ctx context.Context, dir string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, r.git, append([]string{"-c", "safe.directory=*", "--git-dir=" + dir}, args...)...)
	// No configuration of the service's user, and no access to other machines.
	c.Env = []string{
		"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_TERMINAL_PROMPT=0",
		"GIT_OPTIONAL_LOCKS=0", "GIT_NO_LAZY_FETCH=1", "GIT_ALLOW_PROTOCOL=none", "GIT_NO_REPLACE_OBJECTS=1",
	}
	c.Dir, c.WaitDelay = dir, time.Second
	return c
}

// cat returns the bytes of a blob.
func (r *Repositories) cat(ctx context.Context, dir, object string) ([]byte, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := r.command(ctx, dir, "cat-file", "--batch")
	c.Stdin = strings.NewReader(object + "\n")
	var said bytes.Buffer
	c.Stderr = &limited{Buffer: &said, left: 4 << 10}
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, err
	}
	data, err := blob(bufio.NewReader(out))
	if err != nil {
		cancel() // it need not finish
		_ = c.Wait()
		if errors.Is(err, io.EOF) {
			err = fmt.Errorf("%w: %s", err, said.Bytes())
		}
		return nil, err
	}
	return data, c.Wait()
}

// blob reads an answer of cat-file --batch: a line of hash, kind and size, the
// bytes, and a line end.
func blob(r *bufio.Reader) ([]byte, error) {
	head, err := r.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	fields := strings.Fields(string(head))
	if len(fields) != 3 || fields[1] != "blob" {
		return nil, errNone // missing, ambiguous, or a directory
	}
	size, err := strconv.ParseInt(fields[2], 10, 64)
	if err != nil {
		return nil, errNone
	}
	if size > store.MaxContent {
		return nil, errLarge
	}
	data := make([]byte, size)
	if _, err := io.ReadFull(r, data); err != nil {
		return nil, err
	}
	_, err = r.ReadByte()
	return data, err
}

// limited keeps the beginning of what is written.
type limited struct {
	*bytes.Buffer
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	n := min(l.left, len(p))
	l.left -= n
	_, _ = l.Buffer.Write(p[:n])
	return len(p), nil
}
