package workspace

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"net/url"
	"time"
	"unicode/utf8"

	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/workspace/internal/file"
	"github.com/busbar-mcp/busbar/services/workspace/internal/root"
)

// PathIn names a file or directory.
type PathIn struct {
	Path string `json:"path" jsonschema:"file or directory: main/src/app.go begins with a root's name; src/app.go is enough where there is one root"`
}

// ReadIn is what filesystem_read takes.
type ReadIn struct {
	PathIn
	StartLine int `json:"startLine,omitzero" jsonschema:"first line wanted, from 1; a long file comes in parts of whole lines, and nextLine of the last result goes on"`
	MaxBytes  int `json:"maxBytes,omitzero" jsonschema:"most bytes to return, up to 1048576; 262144 if not given"`
}

// ReadOut is what filesystem_read returns besides the text.
type ReadOut struct {
	Path     string    `json:"path"`
	Text     *string   `json:"text,omitzero"`
	Blob     *string   `json:"blob,omitzero"`
	Digest   string    `json:"digest"`
	Size     int64     `json:"size"`
	Modified time.Time `json:"modified"`
	Line     int       `json:"line,omitzero"`
	NextLine int       `json:"nextLine,omitzero"`
	Note     string    `json:"note,omitzero"`
}

// readSchema is that of ReadOut: the text is content as well, so the tool says its
// result itself.
const readSchema = `{
	"type": "object", "required": ["path", "digest", "size", "modified"], "additionalProperties": false,
	"properties": {
		"path": {"type": "string"},
		"text": {"type": "string", "description": "the text, or the part of it that was asked for"},
		"blob": {"type": "string", "description": "what is not text, in base64"},
		"digest": {"type": "string", "description": "of the whole file: as ifMatch of a later change it keeps what somebody else wrote meanwhile"},
		"size": {"type": "integer", "description": "bytes of the whole file"},
		"modified": {"type": "string", "format": "date-time"},
		"line": {"type": "integer", "description": "number of the first line of text"},
		"nextLine": {"type": "integer", "description": "startLine to go on with; absent at the end"},
		"note": {"type": "string", "description": "what is missing in this result"}
	}
}`

const (
	defaultRead = 256 << 10
	maxRead     = 1 << 20
)

func read(_ context.Context, v *root.View, in ReadIn) (*service.Result, error) {
	switch {
	case in.StartLine < 0:
		return nil, service.Errorf("startLine is at least 1")
	case in.MaxBytes < 0 || in.MaxBytes > maxRead:
		return nil, service.Errorf("maxBytes is from 1 to %d", maxRead)
	case in.MaxBytes == 0:
		in.MaxBytes = defaultRead
	}
	p, err := v.Find(in.Path)
	if err != nil {
		return nil, err
	}
	c, err := file.Read(p)
	if err != nil {
		return nil, err
	}
	out := ReadOut{Path: p.String(), Digest: c.Digest, Size: int64(len(c.Data)), Modified: c.Info.ModTime().UTC()}
	if !file.IsText(c.Data) {
		kept := c.Data[:min(len(c.Data), in.MaxBytes)]
		blob := base64.StdEncoding.EncodeToString(kept)
		out.Blob, out.Note = &blob, fmt.Sprintf("not text: %d of %d bytes, in base64", len(kept), len(c.Data))
		return &service.Result{Content: []mcp.Content{mcp.Text(out.Path + " is " + out.Note)}, Structured: out}, nil
	}
	text, err := out.part(c.Data, max(in.StartLine, 1), in.MaxBytes)
	if err != nil {
		return nil, err
	}
	out.Text = &text
	content := []mcp.Content{mcp.Text(text)}
	if out.Note != "" {
		content = append(content, mcp.Text("["+out.Note+"]"))
	}
	return &service.Result{Content: content, Structured: out}, nil
}

// part is the text from a line on, in whole lines as long as there is one.
func (out *ReadOut) part(data []byte, line, most int) (string, error) {
	for n := 1; n < line; n++ {
		end := bytes.IndexByte(data, '\n')
		if end < 0 || end == len(data)-1 {
			return "", service.Errorf("startLine: %s has only %d lines", out.Path, n)
		}
		data = data[end+1:]
	}
	out.Line = line
	if len(data) <= most {
		return string(data), nil
	}
	kept := data[:most]
	if end := bytes.LastIndexByte(kept, '\n'); end >= 0 {
		kept = kept[:end+1]
		out.NextLine = line + bytes.Count(kept, []byte("\n"))
		out.Note = fmt.Sprintf("%d of %d bytes: go on with startLine %d", len(kept), len(data), out.NextLine)
		return string(kept), nil
	}
	for len(kept) > 0 && !utf8.Valid(kept) {
		kept = kept[:len(kept)-1]
	}
	out.Note = fmt.Sprintf("%d bytes of line %d, which is longer than maxBytes", len(kept), line)
	if end := bytes.IndexByte(data, '\n'); end >= 0 && end < len(data)-1 {
		out.NextLine = line + 1
		out.Note += fmt.Sprintf(": the rest of it is left out; go on with startLine %d", out.NextLine)
	}
	return string(kept), nil
}

// ListIn is what filesystem_list takes.
type ListIn struct {
	Path   string `json:"path,omitzero" jsonschema:"directory; the roots, or the only one's entries, if omitted"`
	Cursor string `json:"cursor,omitzero" jsonschema:"nextCursor of the page before"`
	Limit  int    `json:"limit,omitzero" jsonschema:"most entries, up to 1000; 200 if not given"`
}

// ListOut is what filesystem_list returns.
type ListOut struct {
	Entries    []file.Described `json:"entries"`
	NextCursor string           `json:"nextCursor,omitzero" jsonschema:"cursor of the next page; absent on the last"`
}

func list(_ context.Context, v *root.View, in ListIn) (out ListOut, err error) {
	limit, err := page(in.Limit, 200, 1000)
	if err != nil {
		return out, err
	}
	places := v.Places()
	if in.Path == "" && len(places) != 1 {
		out.Entries = []file.Described{}
		for _, p := range places {
			d, _, err := file.Describe(p)
			if err != nil {
				return out, err
			}
			out.Entries = append(out.Entries, d)
		}
		return out, nil
	}
	p, err := v.Find(in.Path)
	if in.Path == "" {
		p, err = places[0], nil
	}
	if err != nil {
		return out, err
	}
	// Escaped, for a name need not be UTF-8.
	after, err := url.PathUnescape(in.Cursor)
	if err != nil {
		return out, service.Errorf("cursor is not the nextCursor of a page: leave it out to begin again")
	}
	entries, last, err := file.List(p, after, limit)
	out.Entries, out.NextCursor = entries, url.PathEscape(last)
	return out, err
}

// TreeIn is what filesystem_tree takes.
type TreeIn struct {
	Path    string `json:"path,omitzero" jsonschema:"directory; that of the only root if omitted"`
	Depth   int    `json:"depth,omitzero" jsonschema:"levels shown, up to 32; 3 if not given"`
	Limit   int    `json:"limit,omitzero" jsonschema:"most entries, up to 5000; 500 if not given"`
	Ignored bool   `json:"ignored,omitzero" jsonschema:"show what .gitignore leaves out, too"`
}

// TreeOut is what filesystem_tree returns.
type TreeOut struct {
	Tree  string `json:"tree" jsonschema:"an entry a line, indented by two blanks a level; directories end in /, symbolic links in @"`
	Files int    `json:"files"`
	Dirs  int    `json:"dirs"`
	Note  string `json:"note,omitzero" jsonschema:"what is not shown"`
}

func tree(ctx context.Context, v *root.View, in TreeIn) (out TreeOut, err error) {
	limit, err := page(in.Limit, 500, 5000)
	if err != nil {
		return out, err
	}
	if in.Depth < 0 || in.Depth > 32 {
		return out, service.Errorf("depth is from 1 to 32")
	}
	if in.Depth == 0 {
		in.Depth = 3
	}
	p, err := v.Find(in.Path)
	if err != nil {
		return out, err
	}
	t, err := file.Tree(ctx, p, file.Options{Everything: in.Ignored, Depth: in.Depth - 1}, limit)
	if err != nil {
		return out, err
	}
	out = TreeOut{Tree: t.Text, Files: t.Files, Dirs: t.Dirs}
	switch {
	case t.Truncated:
		out.Note = fmt.Sprintf("only the first %d entries: ask for a directory in it, or a higher limit", limit)
	case t.Deeper:
		out.Note = "what is in the directories of the last level is not shown: ask with a higher depth"
	}
	return out, nil
}

// StatOut is what filesystem_stat returns.
type StatOut struct {
	file.Described
	Mode   string `json:"mode" jsonschema:"permissions, such as -rw-r--r--"`
	Digest string `json:"digest,omitzero" jsonschema:"of a file's content, for ifMatch; absent above 8 MiB"`
	URI    string `json:"uri" jsonschema:"of the file as a resource"`
}

func stat(_ context.Context, v *root.View, in PathIn) (out StatOut, err error) {
	p, err := v.Find(in.Path)
	if err != nil {
		return out, err
	}
	d, info, err := file.Describe(p)
	if err != nil {
		return out, err
	}
	out = StatOut{Described: d, Mode: info.Mode().String(), URI: p.URI()}
	if info.Mode().IsRegular() && info.Size() <= file.MaxFile {
		c, err := file.Read(p)
		if err != nil {
			return out, err
		}
		out.Digest = c.Digest
	}
	return out, nil
}

// SearchIn is what filesystem_search takes.
type SearchIn struct {
	Query   string `json:"query" jsonschema:"text to look for, or a regular expression (RE2) with regexp"`
	Path    string `json:"path,omitzero" jsonschema:"directory or file to look in; that of the only root if omitted"`
	Names   bool   `json:"names,omitzero" jsonschema:"look in the paths of files and directories, and not in what files contain"`
	Regexp  bool   `json:"regexp,omitzero" jsonschema:"query is a regular expression"`
	Case    bool   `json:"case,omitzero" jsonschema:"upper and lower case differ"`
	Glob    string `json:"glob,omitzero" jsonschema:"only files of this name, such as *.go; a pattern with a slash is for the path in the root"`
	Ignored bool   `json:"ignored,omitzero" jsonschema:"look in what .gitignore leaves out, too"`
	Limit   int    `json:"limit,omitzero" jsonschema:"most matches, up to 1000; 100 if not given"`
}

// SearchOut is what filesystem_search returns.
type SearchOut struct {
	Matches []file.Match `json:"matches"`
	Files   int          `json:"files" jsonschema:"how many files were read"`
	Note    string       `json:"note,omitzero" jsonschema:"why there may be more matches"`
}

func search(ctx context.Context, v *root.View, in SearchIn) (out SearchOut, err error) {
	limit, err := page(in.Limit, 100, file.MaxMatches)
	if err != nil {
		return out, err
	}
	p, err := v.Find(in.Path)
	if err != nil {
		return out, err
	}
	found, err := file.Search(ctx, p, file.Query{
		Pattern: in.Query, Regexp: in.Regexp, Case: in.Case, Names: in.Names, Glob: in.Glob, Everything: in.Ignored, Limit: limit,
	})
	if err != nil {
		return out, err
	}
	return SearchOut{Matches: append([]file.Match{}, found.Matches...), Files: found.Files, Note: found.Why}, nil
}

func (w *workspace) addReaders() {
	t := reader("filesystem_read", "Read file", "Read contents of a file")
	t.OutputSchema = []byte(readSchema)
	add(w, t, read)
	add(w, reader("filesystem_list", "List directory", "Lists a directory: names, types, sizes. Without a path it lists the workspace roots, or the only root."), list)
	add(w, reader("filesystem_tree", "Directory tree", "Draws a directory and those in it as an indented tree, without what git ignores."), tree)
	add(w, reader("filesystem_stat", "File facts", "Tells what is at a path: type, size, time, permissions, digest, where a symbolic link leads."), stat)
	add(w, reader("filesystem_search", "Search files", "Finds text or a regular expression in files, line by line, or in their paths with names. What git ignores is left out."), search)
}
