package workspace

import (
	"context"
	"encoding/base64"
	"errors"
	"io/fs"

	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/workspace/internal/file"
	"github.com/busbar-mcp/busbar/services/workspace/internal/root"
)

// ifMatch is the condition for a change: the state that the file must have.
type ifMatch struct {
	IfMatch string `json:"ifMatch,omitzero" jsonschema:"digest of the file as it was read; if the file has changed since, nothing is changed. The word absent means that the file must not exist"`
}

// WriteIn holds the arguments of filesystem_write.
type WriteIn struct {
	PathIn
	Text *string `json:"text,omitzero" jsonschema:"the whole content, for text"`
	Blob *string `json:"blob,omitzero" jsonschema:"the whole content in base64, for other files"`
	ifMatch
}

// WriteOut is the result of a change of a file.
type WriteOut struct {
	Path    string `json:"path"`
	Created bool   `json:"created" jsonschema:"set if the file is new"`
	Size    int    `json:"size" jsonschema:"new size of the file in bytes"`
	Digest  string `json:"digest" jsonschema:"new digest of the file, for ifMatch"`
	Diff    string `json:"diff,omitzero" jsonschema:"the change as a unified diff, up to 64 KiB"`
}

// maxDiff is the largest diff in a result, in bytes.
const maxDiff = 64 << 10

func write(ctx context.Context, v *root.View, in WriteIn) (out WriteOut, err error) {
	var data []byte
	switch {
	case (in.Text == nil) == (in.Blob == nil):
		return out, service.Errorf("give either text or blob")
	case in.Text != nil:
		data = []byte(*in.Text)
	default:
		if data, err = base64.StdEncoding.DecodeString(*in.Blob); err != nil {
			return out, service.Errorf("blob is not valid base64")
		}
	}
	return change(ctx, v, in.Path, in.IfMatch, func([]byte) ([]byte, error) { return data, nil })
}

func change(ctx context.Context, v *root.View, path, ifMatch string, f func([]byte) ([]byte, error)) (out WriteOut, err error) {
	p, err := v.Find(path)
	if err != nil {
		return out, err
	}
	w, err := file.Change(ctx, p, ifMatch, f)
	if err != nil {
		return out, err
	}
	return WriteOut{Path: p.String(), Created: w.Created, Size: len(w.After), Digest: w.Digest, Diff: clip(file.Diff(p.Full(), w.Before, w.After))}, nil
}

// clip cuts a diff for a result.
func clip(diff string) string {
	if len(diff) <= maxDiff {
		return diff
	}
	return diff[:maxDiff-len(clipped)] + clipped
}

const clipped = "\n[the rest of the diff is missing]\n"

// EditIn holds the arguments of filesystem_edit and filesystem_preview.
type EditIn struct {
	PathIn
	Edits []file.Edit `json:"edits" jsonschema:"replacements, up to 100; they are made in order, all or none"`
	ifMatch
}

// EditOrTryIn holds the arguments of filesystem_edit.
type EditOrTryIn struct {
	EditIn
	DryRun bool `json:"dryRun,omitzero" jsonschema:"return the diff and change nothing; filesystem_preview does the same without a person's approval"`
}

func edit(ctx context.Context, v *root.View, in EditOrTryIn) (WriteOut, error) {
	if in.DryRun {
		return preview(ctx, v, in.EditIn)
	}
	return change(ctx, v, in.Path, in.IfMatch, func(before []byte) ([]byte, error) {
		if before == nil {
			return nil, errors.Join(service.Errorf("the file does not exist; filesystem_write creates one"), fs.ErrNotExist)
		}
		after, err := file.Apply(ctx, string(before), in.Edits)
		return []byte(after), err
	})
}

func preview(ctx context.Context, v *root.View, in EditIn) (out WriteOut, err error) {
	p, err := v.Find(in.Path)
	if err != nil {
		return out, err
	}
	c, err := file.Read(p)
	if err != nil {
		return out, err
	}
	if in.IfMatch != "" && in.IfMatch != c.Digest {
		return out, service.Errorf("%s does not match ifMatch, its digest is %s; read it again", p, c.Digest)
	}
	after, err := file.Apply(ctx, string(c.Data), in.Edits)
	if err != nil {
		return out, err
	}
	return WriteOut{Path: p.String(), Size: len(after), Digest: file.Digest([]byte(after)), Diff: clip(file.Diff(p.Full(), c.Data, []byte(after)))}, nil
}

// MoveIn holds the arguments of filesystem_move.
type MoveIn struct {
	From string `json:"from" jsonschema:"file or directory to move"`
	To   string `json:"to" jsonschema:"new path in the same root, which must not exist; missing directories are created"`
}

// MoveOut is the result of filesystem_move.
type MoveOut struct {
	From string `json:"from"`
	To   string `json:"to"`
}

func move(ctx context.Context, v *root.View, in MoveIn) (out MoveOut, err error) {
	from, err := v.Find(in.From)
	if err != nil {
		return out, err
	}
	to, err := v.Find(in.To)
	if err != nil {
		return out, err
	}
	return MoveOut{from.String(), to.String()}, file.Move(ctx, from, to)
}

// DeleteIn holds the arguments of filesystem_delete.
type DeleteIn struct {
	PathIn
	Recursive bool `json:"recursive,omitzero" jsonschema:"remove a directory with everything in it, up to 10000 entries"`
	ifMatch
}

// DeleteOut is the result of filesystem_delete.
type DeleteOut struct {
	Path    string `json:"path"`
	Removed int    `json:"removed" jsonschema:"number of removed files and directories"`
}

func remove(ctx context.Context, v *root.View, in DeleteIn) (out DeleteOut, err error) {
	p, err := v.Find(in.Path)
	if err != nil {
		return out, err
	}
	n, err := file.Delete(ctx, p, in.IfMatch, in.Recursive)
	return DeleteOut{p.String(), n}, err
}

func (w *workspace) addWriters() {
	add(w, reader("filesystem_preview", "Preview edit", "Shows the change that filesystem_edit would make, as a unified diff. It changes nothing."), preview)
	add(w, writer("filesystem_write", "Write file", "Writes a whole file, and creates it and its directories if they do not exist. The file is replaced at once: readers see either the old or the new content. To change a part of a file, use filesystem_edit.", true), write)
	add(w, writer("filesystem_edit", "Edit file", "Replaces texts in a file. Each old text must occur exactly once, unless all is set. Makes all edits or none. Returns a unified diff.", true), edit)
	add(w, writer("filesystem_move", "Move file", "Moves or renames a file or directory in its root. If the new path exists, nothing is moved.", false), move)
	add(w, writer("filesystem_delete", "Delete file", "Removes a file, a symbolic link or an empty directory permanently; with recursive, a directory with everything in it.", true), remove)
}
