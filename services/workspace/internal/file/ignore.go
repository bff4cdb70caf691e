package file

import (
	"io"
	"path"
	"slices"
	"strings"

	"github.com/busbar-mcp/busbar/services/workspace/internal/root"
)

// Ignore holds the patterns of the .gitignore files on the way to a directory, higher directories
// first.
type Ignore []ignore

// ignore is a line of a .gitignore.
type ignore struct {
	// below is the directory of the .gitignore with a slash after it, empty for the top.
	below string
	// parts are globs of path.Match, one for each element, and ** for any number of elements.
	parts []string
	// include: a match is not ignored. dirs: only directories match.
	include, dirs bool
}

// With adds the patterns of the .gitignore in a directory. dir is the directory's path; the patterns are
// relative to it.
func (i Ignore) With(p root.Place, dir string) Ignore { return i.WithFile(p.In(".gitignore"), dir) }

// WithFile is With for a file of another name. A file that is missing, larger than 64 KiB or
// not a plain file adds nothing.
func (i Ignore) WithFile(p root.Place, dir string) Ignore {
	f, info, err := open(p)
	if err != nil {
		return i
	}
	defer func() { _ = f.Close() }()
	if info.Size() > maxIgnore {
		return i
	}
	data, err := io.ReadAll(io.LimitReader(f, maxIgnore))
	if err != nil {
		return i
	}
	all := slices.Clip(i)
	for line := range strings.Lines(string(data)) {
		if parsed, ok := parseIgnore(strings.TrimRight(line, "\r\n"), dir); ok && len(all) < maxPatterns {
			all = append(all, parsed)
		}
	}
	return all
}

// parseIgnore reads a line; ok is false if it has no pattern.
func parseIgnore(line, dir string) (p ignore, ok bool) {
	if strings.HasPrefix(line, "#") {
		return p, false
	}
	for strings.HasSuffix(line, " ") && !strings.HasSuffix(line, `\ `) {
		line = line[:len(line)-1]
	}
	line, p.include = strings.CutPrefix(line, "!")
	line, p.dirs = strings.CutSuffix(line, "/")
	if line == "" {
		return p, false
	}
	if dir != "." {
		p.below = dir + "/"
	}
	if !strings.Contains(line, "/") {
		p.parts = []string{"**"} // at any depth
	}
	for part := range strings.SplitSeq(strings.TrimPrefix(line, "/"), "/") {
		if part != "**" {
			part = glob(part)
		}
		p.parts = append(p.parts, part)
	}
	if p.parts[len(p.parts)-1] == "**" {
		p.parts = append(p.parts, "*") // the entries of a directory, not the directory itself
	}
	return p, true
}

// glob translates a glob of git for path.Match: only ^ negates a set, and ** inside an element is *.
func glob(part string) string {
	var out strings.Builder
	for i := 0; i < len(part); i++ {
		switch {
		case part[i] == '\\' && i+1 < len(part):
			out.WriteByte(part[i])
			i++
		case part[i] == '*' && strings.HasPrefix(part[i+1:], "*"):
			continue
		case part[i] == '[' && strings.HasPrefix(part[i+1:], "!"):
			out.WriteString("[^")
			i++
			continue
		}
		out.WriteByte(part[i])
	}
	return out.String()
}

// Matches reports whether a path itself is ignored. Everything in an ignored directory is ignored too,
// whatever the patterns say.
func (i Ignore) Matches(p string, dir bool) bool {
	for _, line := range slices.Backward(i) {
		below, ok := strings.CutPrefix(p, line.below)
		if ok && (dir || !line.dirs) && matchParts(line.parts, below) {
			return !line.include
		}
	}
	return false
}

// matchParts matches a path by its elements. Time is at most the product of both lengths: after a
// mismatch, only the last ** takes one more element.
func matchParts(parts []string, p string) bool {
	var again []string // the parts after the last **
	var rest string    // the elements that ** has not taken
	some, more := false, true
	for {
		switch {
		case len(parts) > 0 && parts[0] == "**":
			parts = parts[1:]
			again, rest, some = parts, p, true
			continue
		case len(parts) == 0 && !more:
			return true
		case len(parts) > 0 && more:
			element, after, found := strings.Cut(p, "/")
			if ok, err := path.Match(parts[0], element); err != nil {
				return false
			} else if ok {
				parts, p, more = parts[1:], after, found
				continue
			}
		}
		_, after, found := strings.Cut(rest, "/")
		if !some || !found {
			return false
		}
		parts, p, rest, more = again, after, after, true
	}
}
