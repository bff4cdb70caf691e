package root

import (
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/busbar-mcp/busbar/libs/service"
)

const (
	// maxPath, maxElement and maxDepth bound a path: bytes of all, bytes of an
	// element, elements.
	maxPath    = 4096
	maxElement = 255
	maxDepth   = 128
)

// clean checks a path as a caller writes it and returns its plainest form, with
// "." for an empty one. It knows nothing of what is on disk.
func clean(p string) (string, error) {
	switch {
	case len(p) > maxPath:
		return "", service.Errorf("the path is longer than %d bytes", maxPath)
	case !utf8.ValidString(p):
		return "", service.Errorf("the path is not UTF-8")
	case strings.ContainsFunc(p, func(r rune) bool { return r == '\\' || unicode.IsControl(r) || r == utf8.RuneError }):
		return "", service.Errorf("the path has a backslash or a control character: write a/b.txt, with slashes")
	}
	elements := strings.Split(p, "/")
	if len(elements) > maxDepth {
		return "", service.Errorf("the path has more than %d elements", maxDepth)
	}
	for _, e := range elements {
		if e == ".." {
			return "", service.Errorf("the path has .. in it: write it from the root, such as main/a/b.txt")
		}
		if len(e) > maxElement {
			return "", service.Errorf("a name in the path is longer than %d bytes", maxElement)
		}
	}
	return path.Clean(p), nil
}

// below returns p seen from dir, if it is dir or in it. Both are clean.
func below(dir, p string) (rel string, ok bool) {
	switch {
	case dir == ".":
		return p, true
	case p == dir:
		return ".", true
	}
	return strings.CutPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}

// Guarded names the directory in a path that no tool writes to: git's own, which
// says what git runs, and .busbar, in which people say what this service may do. Case,
// and what some file systems leave out of names, make no difference. It is empty for other paths.
func Guarded(p string) string {
	for e := range strings.SplitSeq(p, "/") {
		plain := strings.TrimRight(strings.Map(visible, strings.ToLower(e)), ". ")
		plain, _, _ = strings.Cut(plain, ":") // streams of NTFS
		switch {
		case plain == ".git", strings.HasPrefix(plain, "git~"):
			return ".git"
		case plain == ".busbar", strings.HasPrefix(plain, "busbar~"):
			return ".busbar"
		}
	}
	return ""
}

// visible drops the characters that HFS+ does not compare, and folds the others
// that lower case leaves apart.
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
