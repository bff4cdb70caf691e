package file

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/workspace/internal/root"
)

// Described describes an entry at a place.
type Described struct {
	Path     string    `json:"path"`
	Type     string    `json:"type" jsonschema:"file, dir, symlink, pipe, socket or device"`
	Size     int64     `json:"size,omitzero" jsonschema:"bytes of a file"`
	Modified time.Time `json:"modified,omitzero"`
	Target   string    `json:"target,omitzero" jsonschema:"target of a symbolic link"`
}

// Describe describes the entry at a place. It does not follow a link.
func Describe(p root.Place) (Described, fs.FileInfo, error) {
	info, err := p.FS.Lstat(p.Path)
	if err != nil {
		return Described{}, nil, explain(p, err)
	}
	d := Described{Path: p.String(), Type: Type(info.Mode()), Modified: info.ModTime().UTC()}
	switch d.Type {
	case "file":
		d.Size = info.Size()
	case "symlink":
		d.Target, _ = p.FS.Readlink(p.Path)
		d.Target = strings.ToValidUTF8(d.Target, "?")
	}
	return d, info, nil
}

// List describes at most limit entries of a directory whose names come after the given name. last is the
// name to continue after; empty if there are no more.
func List(p root.Place, after string, limit int) (all []Described, last string, err error) {
	entries, cut, err := readDir(p)
	if err != nil {
		return nil, "", explain(p, err)
	}
	all = []Described{}
	for _, e := range entries {
		if e.Name() <= after {
			continue
		}
		if len(all) == limit {
			return all, last, nil
		}
		last = e.Name()
		if d, _, err := Describe(p.In(last)); err == nil { // otherwise it is gone
			all = append(all, d)
		}
	}
	if cut {
		return all, "", service.Errorf("%s has more than %d entries, too many to list; find some by filesystem_search with names", p, maxEntries)
	}
	return all, "", nil
}

// Outline is a directory tree as text.
type Outline struct {
	Text              string
	Files, Dirs       int
	Truncated, Deeper bool
}

// treeTime is the time limit for one tree.
const treeTime = 10 * time.Second

// Tree draws a directory and its subdirectories: one line for each entry, indented by two spaces a level,
// with a slash after directories.
func Tree(ctx context.Context, p root.Place, o Options, limit int) (Outline, error) {
	ctx, cancel := context.WithTimeout(ctx, treeTime)
	defer cancel()
	var out Outline
	var text strings.Builder
	fmt.Fprintf(&text, "%s/\n", p)
	err := Walk(ctx, p, o, func(e Entry) error {
		if out.Files+out.Dirs == limit {
			out.Truncated = true
			return ErrStop
		}
		mark := ""
		switch {
		case e.Mode.IsDir():
			out.Dirs++
			mark = "/"
			out.Deeper = out.Deeper || e.Depth == o.Depth
		case e.Mode&fs.ModeSymlink != 0:
			out.Files++
			mark = "@"
		default:
			out.Files++
		}
		text.WriteString(strings.Repeat("  ", e.Depth+1) + shown(e.Name) + mark + "\n")
		return nil
	})
	out.Text = text.String()
	return out, err
}

// shown returns a name for a line of its own: characters that would break the line are escaped.
func shown(name string) string {
	if quoted := fmt.Sprintf("%q", name); len(quoted) != len(name)+2 && strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f || r == 0xfffd }) {
		return quoted
	}
	return name
}
