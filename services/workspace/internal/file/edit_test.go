package file_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/services/workspace/internal/file"
)

// The work of all edits of a call has bounds, and ends with the call.
func TestEditsAreBounded(t *testing.T) {
	t.Parallel()
	whole := strings.Repeat("a", file.MaxFile)
	turns := make([]file.Edit, file.MaxEdits)
	rare := make([]file.Edit, file.MaxEdits)
	for i := range turns {
		turns[i] = file.Edit{OldText: "ab"[i%2 : i%2+1], NewText: "ba"[i%2 : i%2+1], All: true}
		rare[i] = file.Edit{OldText: "xy"[i%2 : i%2+1], NewText: "yx"[i%2 : i%2+1]}
	}
	for words, c := range map[string]struct {
		text  string
		edits []file.Edit
	}{
		"edits[1]: together the edits make more than 10000000 replacements": {whole, turns},
		"edits[32]: together the edits read more than 256 MiB":              {whole[1:] + "x", rare},
	} {
		if _, err := file.Apply(t.Context(), c.text, c.edits); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("got %v, want %s", err, words)
		}
	}
	if got, err := file.Apply(t.Context(), whole, turns[:1]); err != nil || got != strings.Repeat("b", file.MaxFile) {
		t.Errorf("one edit of a whole file: %v", err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := file.Apply(over, "x", rare); !errors.Is(err, context.Canceled) {
		t.Errorf("after its call: %v", err)
	}
}
