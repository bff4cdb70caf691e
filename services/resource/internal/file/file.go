// Package file reads files in configured directories, by file:// URIs. Each read goes through an
// os.Root and follows no link, so it cannot leave the directory. Start reading at Open and
// Files.Read.
package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/mediatype"
	"github.com/busbar-mcp/busbar/services/resource/store"
)

// Scheme is the beginning of its URIs.
const Scheme = "file://"

// Files are the directories that may be read.
type Files struct{ roots []root }

type root struct {
	// dir is absolute, with slashes, and has one at the end.
	dir string
	*os.Root
}

// Open opens directories. Close it.
func Open(dirs []string) (*Files, error) {
	f := &Files{}
	for _, dir := range dirs {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		r, err := os.OpenRoot(abs)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("directory to read files from: %w", err), f.Close())
		}
		f.roots = append(f.roots, root{strings.TrimSuffix(filepath.ToSlash(abs), "/") + "/", r})
	}
	return f, nil
}

// Close closes the directories.
func (f *Files) Close() error {
	var all error
	for _, r := range f.roots {
		all = errors.Join(all, r.Close())
	}
	return all
}

// Path returns the path of a file:// URI as written. The error is InvalidParams if the URI names
// another host, or the path is relative or not in its simplest form.
func Path(uri string) (string, error) {
	bad := fault.New(fault.InvalidParams, "a file is named file:///path/to/it, without .., query and fragment")
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "file" || u.Host != "" && u.Host != "localhost" || u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.HasSuffix(uri, "#") {
		return "", bad
	}
	p := u.Path
	// Programs disagree whether an encoded slash is a separator, so it is refused.
	encoded := strings.ToLower(u.EscapedPath())
	if !strings.HasPrefix(p, "/") || path.Clean(p) != p || strings.Contains(encoded, "%2f") || strings.Contains(encoded, "%5c") ||
		strings.ContainsAny(p, "\x00\\") || !utf8.ValidString(p) {
		return "", bad
	}
	return p, nil
}

// Read reads a file. Errors are Forbidden outside of the directories, for special files and for
// paths with a symbolic link; UnknownResource if the file does not exist; and TooLarge beyond
// store.MaxContent.
func (f *Files) Read(_ context.Context, uri string) (mcp.ResourceContents, error) {
	p, err := Path(uri)
	if err != nil {
		return mcp.ResourceContents{}, err
	}
	for _, r := range f.roots {
		if rel, ok := strings.CutPrefix(p, r.dir); ok {
			return r.read(uri, rel)
		}
	}
	return mcp.ResourceContents{}, forbidden(nil)
}

func forbidden(err error) error {
	return fault.New(fault.Forbidden, "only plain files in the configured directories can be read").Because(err)
}

func (r root) read(uri, rel string) (out mcp.ResourceContents, err error) {
	// The root keeps every step inside it, whatever happens meanwhile. Links are refused too,
	// because an access policy has not checked their targets.
	for i := range len(rel) + 1 {
		if i < len(rel) && rel[i] != '/' {
			continue
		}
		info, err := r.Lstat(rel[:i])
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ENAMETOOLONG):
			return out, store.NotFound(uri)
		case err != nil:
			return out, forbidden(err)
		case info.Mode()&fs.ModeSymlink != 0:
			return out, forbidden(errors.New("a symbolic link"))
		case i == len(rel) && !info.Mode().IsRegular():
			return out, forbidden(errors.New("not a plain file"))
		}
	}
	// If the file became a pipe meanwhile, opening it must not wait for the other end.
	file, err := r.OpenFile(rel, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return out, forbidden(err)
	}
	defer func() { _ = file.Close() }()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return out, forbidden(err)
	}
	data, err := io.ReadAll(io.LimitReader(file, store.MaxContent+1))
	if err != nil {
		return out, forbidden(err)
	}
	if len(data) > store.MaxContent {
		return out, fault.New(fault.TooLarge, "the file has more than %d MiB", store.MaxContent>>20)
	}
	return Contents(uri, mediatype.Of(rel), data), nil
}

// Contents makes the contents of a resource with a MIME type; if it is empty, the type is guessed.
func Contents(uri, mimeType string, data []byte) mcp.ResourceContents {
	if mimeType == "" {
		mimeType = http.DetectContentType(data)
	}
	c := store.ContentOf(data)
	out := mcp.ResourceContents{URI: uri, MIMEType: mimeType}
	if c.Binary {
		out.Blob = c.Bytes
	} else {
		out.Text = string(c.Bytes)
	}
	return out
}
