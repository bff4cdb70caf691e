package github

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"unicode/utf8"

	gh "github.com/google/go-github/v92/github"

	"github.com/busbar-mcp/busbar/services/github/internal/argument"
	"github.com/busbar-mcp/busbar/services/github/internal/limit"
	"github.com/busbar-mcp/busbar/services/github/internal/plain"
)

// ContentsIn holds the arguments of getFileContents.
type ContentsIn struct {
	RepoIn
	Path      argument.Path   `json:"path,omitzero" jsonschema:"File or directory, such as src/main.go, not percent-encoded; the root if omitted"`
	Ref       argument.Ref    `json:"ref,omitzero" jsonschema:"Branch, tag or commit; the default branch if omitted"`
	StartLine argument.LineNo `json:"startLine,omitzero" jsonschema:"First line to return of a text file; give nextLine of the last result to continue"`
	MaxBytes  argument.Bytes  `json:"maxBytes,omitzero" jsonschema:"Maximum number of bytes to return"`
}

// Contents is the content of a file, or the entries of a directory.
type Contents struct {
	Type     string  `json:"type" jsonschema:"file, dir, symlink or submodule"`
	Path     string  `json:"path"`
	Size     int     `json:"size,omitzero" jsonschema:"size of the whole file in bytes"`
	SHA      string  `json:"sha,omitzero"`
	URL      string  `json:"url,omitzero" jsonschema:"web page"`
	Encoding string  `json:"encoding,omitzero" jsonschema:"encoding of content: utf-8, or base64 for a file that is not text"`
	Content  string  `json:"content,omitzero" jsonschema:"content of a file"`
	Line     int     `json:"line,omitzero" jsonschema:"number of content's first line"`
	NextLine int     `json:"nextLine,omitzero" jsonschema:"startLine for the next part; absent at the end"`
	Target   string  `json:"target,omitzero" jsonschema:"target of a symlink or a submodule"`
	Entries  []Entry `json:"entries,omitzero" jsonschema:"entries of a directory"`
	Note     string  `json:"note,omitzero" jsonschema:"says what is missing from this result or changed in it"`
}

// Entry is an entry of a directory.
type Entry struct {
	Name string `json:"name"`
	Path string `json:"path"`
	Type string `json:"type" jsonschema:"file, dir, symlink or submodule"`
	Size int    `json:"size"`
}

func (k *kit) addContents() {
	add(k, "getFileContents", "Get file contents",
		"Returns a file of a repository, or a directory's entries, at a branch, tag or commit. A long file is returned in parts: continue with startLine. A file that is not text is returned in base64.",
		getContents)
}

func getContents(ctx context.Context, api *gh.Client, in ContentsIn) (out Contents, err error) {
	file, entries, _, err := api.Repositories.GetContents(ctx, string(in.Owner), string(in.Repo), string(in.Path), &gh.RepositoryContentGetOptions{Ref: string(in.Ref)})
	switch {
	case err != nil:
		return out, err
	case file == nil && entries == nil:
		return out, errStrange
	case file == nil:
		return directory(in, entries), nil
	}
	out = Contents{
		Type: line(file.GetType()), Path: plain.Line(file.GetPath(), limit.Path), Size: file.GetSize(), SHA: line(file.GetSHA()), URL: plain.Line(file.GetHTMLURL(), limit.Path),
		Target: plain.Line(file.GetTarget(), limit.Path),
	}
	if out.Type == "submodule" {
		out.Target = line(file.GetSubmoduleGitURL())
	}
	if out.Type != "file" {
		return out, nil
	}
	data, err := contentsOf(ctx, api, in, file)
	if err != nil {
		return out, err
	}
	return out, out.show(data, in)
}

func directory(in ContentsIn, entries []*gh.RepositoryContent) Contents {
	out := Contents{Type: "dir", Path: plain.Line(string(in.Path), limit.Path), Entries: []Entry{}}
	if len(entries) >= limit.Entries {
		entries = entries[:limit.Entries]
		out.Note = fmt.Sprintf("only the first %d entries; the directory may have more", limit.Entries)
	}
	for _, e := range entries {
		out.Entries = append(out.Entries, Entry{
			Name: line(e.GetName()), Path: plain.Line(e.GetPath(), limit.Path), Type: line(e.GetType()), Size: e.GetSize(),
		})
	}
	return out
}

// contentsOf decodes a file, or fetches it: GitHub includes only the first MiB in its
// description.
func contentsOf(ctx context.Context, api *gh.Client, in ContentsIn, file *gh.RepositoryContent) ([]byte, error) {
	if file.GetEncoding() == "base64" {
		text, err := file.GetContent()
		if err != nil {
			return nil, errStrange
		}
		return []byte(text), nil
	}
	if file.GetSize() == 0 {
		return nil, nil
	}
	if file.GetSize() > limit.Body {
		return nil, &refusal{"too large", fmt.Sprintf("the file has %d bytes; only files of up to %d MiB can be read", file.GetSize(), limit.Body>>20)}
	}
	// The SHA comes from GitHub, so it is encoded like an argument.
	data, _, err := api.Git.GetBlobRaw(ctx, string(in.Owner), string(in.Repo), argument.Ref(file.GetSHA()).Segment())
	return data, err
}

// show fills c with the requested part of a file.
func (c *Contents) show(data []byte, in ContentsIn) error {
	most := int(in.MaxBytes)
	if most == 0 {
		most = limit.DefaultContent
	}
	if !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 {
		c.Encoding = "base64"
		kept := data[:min(len(data), most)]
		c.Content = base64.StdEncoding.EncodeToString(kept)
		if len(kept) < len(data) {
			c.Note = fmt.Sprintf("truncated: the first %d of %d bytes", len(kept), len(data))
		}
		return nil
	}
	c.Encoding, c.Line = "utf-8", max(int(in.StartLine), 1)
	for n := 1; n < c.Line; n++ {
		end := bytes.IndexByte(data, '\n')
		if end < 0 || end == len(data)-1 {
			return invalid("startLine is too large; the file has only %d lines", n)
		}
		data = data[end+1:]
	}
	text := string(data)
	kept := plain.Cut(text, most)
	if len(kept) < len(text) {
		// Whole lines, if at least one fits.
		if end := strings.LastIndexByte(kept, '\n'); end >= 0 {
			kept = kept[:end+1]
			c.NextLine = c.Line + strings.Count(kept, "\n")
			c.Note = fmt.Sprintf("truncated: %d of the %d bytes from here; continue with startLine %d", len(kept), len(text), c.NextLine)
		} else {
			c.Note = fmt.Sprintf("truncated: %d of the %d bytes from here; the line is longer than maxBytes", len(kept), len(text))
		}
	}
	c.Content = plain.Escape(kept)
	if c.Content != kept {
		c.Note = strings.TrimPrefix(c.Note+`; control or invisible characters are written as \uXXXX`, "; ")
	}
	return nil
}
