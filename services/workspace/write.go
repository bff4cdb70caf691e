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

// ifMatch says what has to be there for a change to be made.
type ifMatch struct {
	IfMatch string `json:"ifMatch,omitzero" jsonschema:"digest of the file as it was read: nothing is changed if it is another by now. absent: there must be no such file"`
}

// WriteIn is what filesystem_write takes.
type WriteIn struct {
	PathIn
	Text *string `json:"text,omitzero" jsonschema:"the whole content, if it is text"`
	Blob *string `json:"blob,omitzero" jsonschema:"the whole content in base64, if it is not"`
	ifMatch
}

// WriteOut is what a change of a file returns.
type WriteOut struct {
	Path    string `json:"path"`
	Created bool   `json:"created" jsonschema:"there was no such file before"`
	Size    int    `json:"size" jsonschema:"bytes of the file now"`
	Digest  string `json:"digest" jsonschema:"of the file now, for ifMatch"`
	Diff    string `json:"diff,omitzero" jsonschema:"what was changed, as a unified diff; up to 64 KiB of it"`
}

// maxDiff is the most bytes of a diff in a result.
const maxDiff = 64 << 10

func write(ctx context.Context, v *root.View, in WriteIn) (out WriteOut, err error) {
	var data []byte
	switch {
	case (in.Text == nil) == (in.Blob == nil):
		return out, service.Errorf("give text or blob, one of them")
	case in.Text != nil:
		data = []byte(*in.Text)
	default:
		if data, err = base64.StdEncoding.DecodeString(*in.Blob); err != nil {
			return out, service.Errorf("blob is not base64")
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

const clipped = "\n[the rest of the diff is left out]\n"

// EditIn is what filesystem_edit and filesystem_preview take.
type EditIn struct {
	PathIn
	Edits []file.Edit `json:"edits" jsonschema:"replacements, made one after the other, all or none; up to 100"`
	ifMatch
}

// EditOrTryIn is what filesystem_edit takes.
type EditOrTryIn struct {
	EditIn
	DryRun bool `json:"dryRun,omitzero" jsonschema:"return the diff and change nothing, as filesystem_preview does, which no person has to agree to"`
}

func edit(ctx context.Context, v *root.View, in EditOrTryIn) (WriteOut, error) {
	if in.DryRun {
		return preview(ctx, v, in.EditIn)
	}
	return change(ctx, v, in.Path, in.IfMatch, func(before []byte) ([]byte, error) {
		if before == nil {
			return nil, errors.Join(service.Errorf("there is no such file to edit: filesystem_write makes one"), fs.ErrNotExist)
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
		return out, service.Errorf("%s is not what ifMatch says, it is %s", p, c.Digest)
	}
	after, err := file.Apply(ctx, string(c.Data), in.Edits)
	if err != nil {
		return out, err
	}
	return WriteOut{Path: p.String(), Size: len(after), Digest: file.Digest([]byte(after)), Diff: clip(file.Diff(p.Full(), c.Data, []byte(after)))}, nil
}

// MoveIn is what filesystem_move takes.
type MoveIn struct {
	From string `json:"from" jsonschema:"file or directory to move"`
	To   string `json:"to" jsonschema:"its new path in the same root, where nothing is yet; directories on the way are made"`
}

// MoveOut is what filesystem_move returns.
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

// DeleteIn is what filesystem_delete takes.
type DeleteIn struct {
	PathIn
	Recursive bool `json:"recursive,omitzero" jsonschema:"remove a directory with all that is in it, up to 10000 entries"`
	ifMatch
}

// DeleteOut is what filesystem_delete returns.
type DeleteOut struct {
	Path    string `json:"path"`
	Removed int    `json:"removed" jsonschema:"how many files and directories are gone"`
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
	add(w, reader("filesystem_preview", "Preview edit", "Shows what filesystem_edit would change, as a unified diff, and changes nothing."), preview)
	add(w, writer("filesystem_write", "Write file", "Writes a whole file, and makes it and its directories if they are not there. The file is replaced at once: readers see the old content or the new one. To change a part of a file use filesystem_edit.", true), write)
	add(w, writer("filesystem_edit", "Edit file", "Replaces text in a file by text, exactly; each text has to be there once, or all says that each occurrence is meant. All edits are made, or none. Returns a unified diff.", true), edit)
	add(w, writer("filesystem_move", "Move file", "Moves or renames a file or directory in its root. What is at the new path stays: then nothing is moved.", false), move)
	add(w, writer("filesystem_delete", "Delete file", "Removes a file, a symbolic link or an empty directory for good; with recursive a directory with all that is in it.", true), remove)
}
