package file

import (
	"bytes"
	"context"
	"strings"
	"unicode/utf8"

	udiff "github.com/aymanbagabas/go-udiff"

	"github.com/busbar-mcp/busbar/libs/service"
)

// Edit replaces one text by another.
type Edit struct {
	OldText string `json:"oldText" jsonschema:"text to replace; it must match the file exactly, including white space"`
	NewText string `json:"newText" jsonschema:"text to put in its place"`
	All     bool   `json:"all,omitzero" jsonschema:"replace every occurrence; without it, the text must occur exactly once"`
}

const (
	// MaxEdits is the largest number of edits in a call.
	//limit:files edits of one call | the tool fails
	MaxEdits = 100
	// maxScanned is the number of bytes that all edits of a call may read together: each
	// edit reads the whole file. maxReplaced is the largest number of replacements in a call.
	maxScanned  = 256 << 20
	maxReplaced = 10_000_000
)

// Apply makes the edits in order, each in the result of the previous one. It stops when ctx ends.
func Apply(ctx context.Context, text string, edits []Edit) (string, error) {
	switch {
	case len(edits) == 0:
		return "", service.Errorf("edits is empty; give at least one edit")
	case len(edits) > MaxEdits:
		return "", service.Errorf("there are more than %d edits; split them over several calls", MaxEdits)
	case !IsText([]byte(text)):
		return "", service.Errorf("the file is not UTF-8 text, so it cannot be edited")
	}
	scanned, replaced := 0, 0
	for i, e := range edits {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		if e.OldText == "" {
			return "", service.Errorf("edits[%d].oldText is empty; give the text to replace", i)
		}
		if scanned += len(text); scanned > maxScanned {
			return "", service.Errorf("edits[%d]: together the edits read more than %d MiB; nothing was changed; make fewer edits in one call", i, maxScanned>>20)
		}
		n := strings.Count(text, e.OldText)
		switch replaced += n; {
		case n == 0:
			return "", service.Errorf("edits[%d].oldText is not in the file; nothing was changed; it must match in every character", i)
		case n > 1 && !e.All:
			return "", service.Errorf("edits[%d].oldText is in the file %d times; nothing was changed; give more of the text around it, or set all", i, n)
		case replaced > maxReplaced:
			return "", service.Errorf("edits[%d]: together the edits make more than %d replacements; nothing was changed; make fewer edits in one call", i, maxReplaced)
		case len(text)+n*(len(e.NewText)-len(e.OldText)) > MaxFile:
			return "", service.Errorf("edits[%d] makes the file larger than %d MiB, which is the limit; nothing was changed", i, MaxFile>>20)
		}
		text = strings.ReplaceAll(text, e.OldText, e.NewText)
	}
	return text, nil
}

// IsText reports whether data is UTF-8 text.
func IsText(data []byte) bool {
	return bytes.IndexByte(data[:min(len(data), 8000)], 0) < 0 && utf8.Valid(data)
}

// maxDiff is the largest total size of two files that are compared line by line, in bytes.
const maxDiff = 2 << 20

// Diff returns a unified diff between two states of a file, "" if they are equal. nil means that the file
// does not exist. Binary and large files get one line instead.
func Diff(path string, before, after []byte) string {
	old, name := "a/"+path, "b/"+path
	if before == nil {
		old = "/dev/null"
	}
	if after == nil {
		name = "/dev/null"
	}
	switch {
	case string(before) == string(after) && (before == nil) == (after == nil):
		return ""
	case !IsText(before) || !IsText(after):
		return "Binary files " + old + " and " + name + " differ\n"
	case len(before)+len(after) > maxDiff:
		return "Files " + old + " and " + name + " differ, but are too large to compare\n"
	}
	return udiff.Unified(old, name, string(before), string(after))
}
