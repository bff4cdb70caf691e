package root

import (
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/busbar-mcp/busbar/libs/service"
)

const (
	// maxPath, maxElement and maxDepth bound a path: its bytes, the bytes of an element, and
	// the number of elements.
	//limit:files.bytes path of a file | the tool fails
	maxPath    = 4096
	maxElement = 255
	maxDepth   = 128
)

// clean checks a path written by a caller and returns its simplest form, "." for an empty one. It does not
// look at the disk.
func clean(p string) (string, error) {
	switch {
	case len(p) > maxPath:
		return "", service.Errorf("the path is longer than %d bytes, which is the limit", maxPath)
	case !utf8.ValidString(p):
		return "", service.Errorf("the path is not valid UTF-8")
	case strings.ContainsFunc(p, func(r rune) bool { return r == '\\' || unicode.IsControl(r) || r == utf8.RuneError }):
		return "", service.Errorf("the path has a backslash or a control character; write it with slashes, such as a/b.txt")
	}
	elements := strings.Split(p, "/")
	if len(elements) > maxDepth {
		return "", service.Errorf("the path has more than %d elements, which is the limit", maxDepth)
	}
	for _, e := range elements {
		if e == ".." {
			return "", service.Errorf("the path contains ..; write it from the root, such as main/a/b.txt")
		}
		if len(e) > maxElement {
			return "", service.Errorf("a name in the path is longer than %d bytes, which is the limit", maxElement)
		}
	}
	return path.Clean(p), nil
}

// below returns p relative to dir, if it is dir or in it. Both paths are clean.
func below(dir, p string) (rel string, ok bool) {
	switch {
	case dir == ".":
		return p, true
	case p == dir:
		return ".", true
	}
	return strings.CutPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}

// Guarded returns the directory in a path that no tool writes to: .git, which decides what git runs, or
// .busbar, in which people configure this service. It ignores case and characters that some file systems
// ignore in names. It is empty for other paths.
func Guarded(p string) string {
	for e := range strings.SplitSeq(p, "/") {
		plain := strings.TrimRight(strings.Map(visible, strings.ToLower(e)), ". ")
		plain, _, _ = strings.Cut(plain, ":") // cut off NTFS streams
		switch {
		case plain == ".git", strings.HasPrefix(plain, "git~"):
			return ".git"
		case plain == ".busbar", strings.HasPrefix(plain, "busbar~"):
			return ".busbar"
		}
	}
	return ""
}

// visible drops the characters that HFS+ ignores, and folds those that lower case keeps distinct.
func visible(r rune) rune {
	switch {
	case unicode.Is(unicode.Cf, r):
		return -1
	case r == 'ı' || r == 'İ':
		return 'i'
	case r == 'ſ':
		return 's'
	}
	return r
}
