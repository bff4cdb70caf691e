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
	Path string `json:"path" jsonschema:"file or directory, beginning with a root's name, such as main/src/app.go; src/app.go is enough if there is only one root"`
}

// ReadIn holds the arguments of filesystem_read.
type ReadIn struct {
	PathIn
	StartLine int `json:"startLine,omitzero" jsonschema:"first line to return, from 1; a long file is returned in parts of whole lines: continue with nextLine of the last result"`
	MaxBytes  int `json:"maxBytes,omitzero" jsonschema:"maximum number of bytes to return, up to 1048576; default 262144"`
}

// ReadOut is the result of filesystem_read, besides the text.
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

// readSchema is the schema of ReadOut. The text is also in the content, so the tool builds its result
// itself.
const readSchema = `{
	"type": "object", "required": ["path", "digest", "size", "modified"], "additionalProperties": false,
	"properties": {
		"path": {"type": "string"},
		"text": {"type": "string", "description": "the text, or the requested part of it"},
		"blob": {"type": "string", "description": "the content in base64, if it is not text"},
		"digest": {"type": "string", "description": "digest of the whole file; give it as ifMatch of a later change, so that a change by somebody else is not overwritten"},
		"size": {"type": "integer", "description": "size of the whole file in bytes"},
		"modified": {"type": "string", "format": "date-time"},
		"line": {"type": "integer", "description": "number of the first line of text"},
		"nextLine": {"type": "integer", "description": "startLine for the next part; absent at the end"},
		"note": {"type": "string", "description": "says what is missing from this result"}
	}
}`

const (
	//limit:files text that `filesystem_read` returns; `maxBytes` may ask for 1 MiB | the rest is left out
	defaultRead = 256 << 10
	maxRead     = 1 << 20
)

func read(_ context.Context, v *root.View, in ReadIn) (*service.Result, error) {
	switch {
	case in.StartLine < 0:
		return nil, service.Errorf("startLine is %d; give at least 1", in.StartLine)
	case in.MaxBytes < 0 || in.MaxBytes > maxRead:
		return nil, service.Errorf("maxBytes is %d; give a number from 1 to %d", in.MaxBytes, maxRead)
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

// part returns the text from a line on, in whole lines if at least one fits.
func (out *ReadOut) part(data []byte, line, most int) (string, error) {
	for n := 1; n < line; n++ {
		end := bytes.IndexByte(data, '\n')
		if end < 0 || end == len(data)-1 {
			return "", service.Errorf("startLine is too large; %s has only %d lines", out.Path, n)
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
		out.Note = fmt.Sprintf("%d of %d bytes; continue with startLine %d", len(kept), len(data), out.NextLine)
		return string(kept), nil
	}
	for len(kept) > 0 && !utf8.Valid(kept) {
		kept = kept[:len(kept)-1]
	}
	out.Note = fmt.Sprintf("%d bytes of line %d, which is longer than maxBytes", len(kept), line)
	if end := bytes.IndexByte(data, '\n'); end >= 0 && end < len(data)-1 {
		out.NextLine = line + 1
		out.Note += fmt.Sprintf("; the rest of the line is missing; continue with startLine %d", out.NextLine)
	}
	return string(kept), nil
}

// ListIn holds the arguments of filesystem_list.
type ListIn struct {
	Path   string `json:"path,omitzero" jsonschema:"directory; if omitted, lists the roots, or the entries of the only root"`
	Cursor string `json:"cursor,omitzero" jsonschema:"nextCursor of the previous page"`
	Limit  int    `json:"limit,omitzero" jsonschema:"maximum number of entries, up to 1000; default 200"`
}

// ListOut is the result of filesystem_list.
type ListOut struct {
	Entries    []file.Described `json:"entries"`
	NextCursor string           `json:"nextCursor,omitzero" jsonschema:"cursor for the next page; absent on the last page"`
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
	// It is escaped, because a name need not be UTF-8.
	after, err := url.PathUnescape(in.Cursor)
	if err != nil {
		return out, service.Errorf("cursor is not valid; give nextCursor of the previous page, or omit it to start again")
	}
	entries, last, err := file.List(p, after, limit)
	out.Entries, out.NextCursor = entries, url.PathEscape(last)
	return out, err
}

// TreeIn holds the arguments of filesystem_tree.
type TreeIn struct {
	Path    string `json:"path,omitzero" jsonschema:"directory; may be omitted if there is only one root"`
	Depth   int    `json:"depth,omitzero" jsonschema:"number of levels, up to 32; default 3"`
	Limit   int    `json:"limit,omitzero" jsonschema:"maximum number of entries, up to 5000; default 500"`
	Ignored bool   `json:"ignored,omitzero" jsonschema:"include ignored files (.gitignore)"`
}

// TreeOut is the result of filesystem_tree.
type TreeOut struct {
	Tree  string `json:"tree" jsonschema:"one entry on each line, indented by two spaces a level; directories end in /, symbolic links in @"`
	Files int    `json:"files"`
	Dirs  int    `json:"dirs"`
	Note  string `json:"note,omitzero" jsonschema:"says what is missing from this result"`
}

func tree(ctx context.Context, v *root.View, in TreeIn) (out TreeOut, err error) {
	limit, err := page(in.Limit, 500, 5000)
	if err != nil {
		return out, err
	}
	if in.Depth < 0 || in.Depth > 32 {
		return out, service.Errorf("depth is %d; give a number from 1 to 32", in.Depth)
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
		out.Note = fmt.Sprintf("only the first %d entries are shown; give a directory in it, or a higher limit", limit)
	case t.Deeper:
		out.Note = "the contents of the last level's directories are not shown; give a higher depth"
	}
	return out, nil
}

// StatOut is what filesystem_stat returns.
type StatOut struct {
	file.Described
	Mode   string `json:"mode" jsonschema:"permissions, such as -rw-r--r--"`
	Digest string `json:"digest,omitzero" jsonschema:"digest of a file's content, for ifMatch; absent above 8 MiB"`
	URI    string `json:"uri" jsonschema:"URI of the file as a resource"`
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

// SearchIn holds the arguments of filesystem_search.
type SearchIn struct {
	Query   string `json:"query" jsonschema:"text to search for, or a regular expression (RE2) if regexp is set"`
	Path    string `json:"path,omitzero" jsonschema:"directory or file to search in; may be omitted if there is only one root"`
	Names   bool   `json:"names,omitzero" jsonschema:"search in the paths of files and directories instead of the contents of files"`
	Regexp  bool   `json:"regexp,omitzero" jsonschema:"treat query as a regular expression"`
	Case    bool   `json:"case,omitzero" jsonschema:"distinguish upper and lower case"`
	Glob    string `json:"glob,omitzero" jsonschema:"only files with a matching name, such as *.go; a pattern with a slash is compared with the path in the root"`
	Ignored bool   `json:"ignored,omitzero" jsonschema:"include ignored files (.gitignore)"`
	Limit   int    `json:"limit,omitzero" jsonschema:"maximum number of matches, up to 1000; default 100"`
}

// SearchOut is the result of filesystem_search.
type SearchOut struct {
	Matches []file.Match `json:"matches"`
	Files   int          `json:"files" jsonschema:"number of files read"`
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
	add(w, reader("filesystem_tree", "Directory tree", "Shows a directory and its subdirectories as an indented tree, without ignored files (.gitignore)."), tree)
	add(w, reader("filesystem_stat", "File facts", "Shows facts about a path: type, size, time, permissions, digest, target of a symbolic link."), stat)
	add(w, reader("filesystem_search", "Search files", "Searches files line by line for a text or a regular expression; with names, searches their paths. Ignored files (.gitignore) are skipped."), search)
}
