package text

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/text/internal/language"
	"github.com/busbar-mcp/busbar/services/text/internal/segment"
	"github.com/busbar-mcp/busbar/services/text/internal/summary"
	"github.com/busbar-mcp/busbar/services/text/internal/term"
)

const (
	maxText      = 512 << 10 // bytes of UTF-8
	summaryLimit = 200       // code points, unless asked otherwise
)

// document is a text that may be worked on: checked, valid UTF-8 in NFC.
type document struct {
	text      string
	language  language.Language
	sentences []segment.Sentence
}

// check refuses texts that no tool takes.
func check(text string) error {
	if len(text) > maxText {
		return service.Errorf("text is too long: %d bytes of UTF-8, and at most %d (512 KiB) are taken; send it in parts", len(text), maxText)
	}
	if strings.TrimSpace(text) == "" {
		return service.Errorf("text is empty; give at least one character that is not white space")
	}
	return nil
}

func read(ctx context.Context, text string) (*document, error) {
	if err := check(text); err != nil {
		return nil, err
	}
	text = norm.NFC.String(strings.ToValidUTF8(text, "\uFFFD"))
	d := &document{text: text, language: language.Detect(text), sentences: segment.Sentences(text)}
	return d, ctx.Err()
}

func (d *document) terms(ctx context.Context) ([]term.Term, error) {
	return term.Extract(ctx, d.sentences, d.language)
}

// summarize serves both tools that summarize. The ratio is of the lengths in
// code points.
func summarize(ctx context.Context, text string, limit int) (SummarizeOut, error) {
	if limit == 0 {
		limit = summaryLimit
	}
	if limit < 1 {
		return SummarizeOut{}, service.Errorf("the summary's greatest length is %d; give at least 1", limit)
	}
	d, err := read(ctx, text)
	if err != nil {
		return SummarizeOut{}, err
	}
	terms, err := d.terms(ctx)
	if err != nil {
		return SummarizeOut{}, err
	}
	s, err := summary.Summarize(ctx, d.text, d.sentences, terms, limit)
	if err != nil {
		return SummarizeOut{}, err
	}
	n := utf8.RuneCountInString(s)
	share := 100 * float64(n) / float64(utf8.RuneCountInString(d.text))
	return SummarizeOut{Summary: s, Length: n, CompressionRatio: fmt.Sprintf("%.1f%%", share)}, nil
}
