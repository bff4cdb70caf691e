package file

import (
	"bytes"
	"context"
	"strings"
	"unicode/utf8"

	udiff "github.com/aymanbagabas/go-udiff"

	"github.com/busbar-mcp/busbar/libs/service"
)

// Edit replaces text by text.
type Edit struct {
	OldText string `json:"oldText" jsonschema:"text that is in the file, exactly, white space included"`
	NewText string `json:"newText" jsonschema:"text to put in its place"`
	All     bool   `json:"all,omitzero" jsonschema:"replace each occurrence; without it there has to be one alone"`
}

const (
	// MaxEdits is the most edits of a call.
	MaxEdits = 100
	// maxScanned is the most bytes that all edits of a call read together: each edit
	// reads the whole file. maxReplaced is the most replacements of a call.
	maxScanned  = 256 << 20
	maxReplaced = 10_000_000
)

// Apply makes edits in order, each in the text that the previous one left. It ends with its context.
func Apply(ctx context.Context, text string, edits []Edit) (string, error) {
	switch {
	case len(edits) == 0:
		return "", service.Errorf("there are no edits")
	case len(edits) > MaxEdits:
		return "", service.Errorf("there are more than %d edits", MaxEdits)
	case !IsText([]byte(text)):
		return "", service.Errorf("the file is not text in UTF-8, so it is not edited")
	}
	scanned, replaced := 0, 0
	for i, e := range edits {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		if e.OldText == "" {
			return "", service.Errorf("edits[%d].oldText is empty: give some text of the file that is to be replaced", i)
		}
		if scanned += len(text); scanned > maxScanned {
			return "", service.Errorf("edits[%d]: the edits read more than %d MiB of the file together: nothing was changed; make fewer edits in one call", i, maxScanned>>20)
		}
		n := strings.Count(text, e.OldText)
		switch replaced += n; {
		case n == 0:
			return "", service.Errorf("edits[%d].oldText is not in the file: nothing was changed; it has to be the same in every character", i)
		case n > 1 && !e.All:
			return "", service.Errorf("edits[%d].oldText is in the file %d times: nothing was changed; give more of the text around it, or all", i, n)
		case replaced > maxReplaced:
			return "", service.Errorf("edits[%d]: the edits replace more than %d texts together: nothing was changed; make fewer edits in one call", i, maxReplaced)
		case len(text)+n*(len(e.NewText)-len(e.OldText)) > MaxFile:
			return "", service.Errorf("edits[%d] makes the file larger than %d MiB", i, MaxFile>>20)
		}
		text = strings.ReplaceAll(text, e.OldText, e.NewText)
	}
	return text, nil
}

// IsText reports whether data is text in UTF-8.
func IsText(data []byte) bool {
	return bytes.IndexByte(data[:min(len(data), 8000)], 0) < 0 && utf8.Valid(data)
}

// maxDiff is the most bytes of two files that are compared line by line.
const maxDiff = 2 << 20

// Diff is a unified diff between two states of a file; "" if they are equal. A
// state that is not there is nil. What is not text, or too much, is told in a line.
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
		return "Files " + old + " and " + name + " differ, and are too large to be compared\n"
	}
	return udiff.Unified(old, name, string(before), string(after))
}
