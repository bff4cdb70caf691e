package text

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/text/internal/entity"
	"github.com/busbar-mcp/busbar/services/text/internal/keyword"
	"github.com/busbar-mcp/busbar/services/text/internal/language"
	"github.com/busbar-mcp/busbar/services/text/internal/segment"
	"github.com/busbar-mcp/busbar/services/text/internal/summary"
	"github.com/busbar-mcp/busbar/services/text/internal/term"
)

const (
	maxText      = 512 << 10 // bytes of UTF-8
	summaryLimit = 200       // code points, if the caller gives none
)

// check refuses texts that no tool accepts.
func check(text string) error {
	if err := checkSize(text); err != nil {
		return err
	}
	if strings.TrimSpace(text) == "" {
		return service.Errorf("text is empty; give at least one character that is not white space")
	}
	return nil
}

func checkSize(text string) error {
	if len(text) > maxText {
		return service.Errorf("text is too long: %d bytes of UTF-8, the limit is %d (512 KiB); send it in parts", len(text), maxText)
	}
	return nil
}

// Document is a text that has been read: valid UTF-8 in NFC. The tools compute their answers from it. Its
// language and its sentences are computed on first use. It accepts texts of any size, in linear time; the
// size limit is the tools'. Only one goroutine at a time may use it.
type Document struct {
	text      string
	language  func() language.Language
	sentences func() []segment.Sentence
	content   []term.Term // nil until asked for
}

// Read reads a text. Invalid UTF-8 becomes U+FFFD.
func Read(ctx context.Context, text string) (*Document, error) {
	text = norm.NFC.String(strings.ToValidUTF8(text, "\uFFFD"))
	return &Document{
		text:      text,
		language:  sync.OnceValue(func() language.Language { return language.Detect(text) }),
		sentences: sync.OnceValue(func() []segment.Sentence { return segment.Sentences(text) }),
	}, ctx.Err()
}

// Language returns an ISO 639-1 code, or "und" if the language is undetermined.
func (d *Document) Language() string { return string(d.language()) }

// Sentences returns the sentences, headings and list items, as written.
func (d *Document) Sentences() []string {
	sentences := d.sentences()
	all := make([]string, len(sentences))
	for i, s := range sentences {
		all[i] = s.Text
	}
	return all
}

// Words returns all words as written. Chinese is cut into words, not characters.
func (d *Document) Words(ctx context.Context) ([]string, error) {
	return term.Words(ctx, d.sentences())
}

// Keywords returns the n best keywords, best first.
func (d *Document) Keywords(ctx context.Context, n int) ([]Keyword, error) {
	terms, err := d.terms(ctx)
	if err != nil {
		return nil, err
	}
	found, err := keyword.Find(ctx, terms, n)
	if err != nil {
		return nil, err
	}
	all := make([]Keyword, len(found))
	for i, k := range found {
		all[i] = Keyword{Word: k.Word, Count: k.Count, Score: k.Score}
	}
	return all, nil
}

// Summary returns the most central sentences in their original order, together at most limit code points.
func (d *Document) Summary(ctx context.Context, limit int) (string, error) {
	terms, err := d.terms(ctx)
	if err != nil {
		return "", err
	}
	return summary.Summarize(ctx, d.text, d.sentences(), terms, limit)
}

// Entities returns what the built-in gazetteer finds.
func (d *Document) Entities(ctx context.Context) (Entities, error) {
	found, err := entity.Extract(ctx, d.sentences(), d.language(), entity.Default())
	return Entities(found), err
}

// Stem cuts the inflectional ending off a word of the given language, so that all forms of a word compare
// equal.
func Stem(word, lang string) string {
	return language.Stem(language.Fold(word), language.Language(lang))
}

func (d *Document) terms(ctx context.Context) ([]term.Term, error) {
	if d.content != nil {
		return d.content, nil
	}
	var err error
	d.content, err = term.Extract(ctx, d.sentences(), d.language())
	return d.content, err
}

// read is Read for the tools, which refuse empty and oversized texts.
func read(ctx context.Context, text string) (*Document, error) {
	if err := check(text); err != nil {
		return nil, err
	}
	return Read(ctx, text)
}

// summarize serves both tools that summarize.
func summarize(ctx context.Context, text string, limit int) (SummarizeOut, error) {
	d, limit, err := toSummarize(ctx, text, limit)
	if err != nil {
		return SummarizeOut{}, err
	}
	s, err := d.Summary(ctx, limit)
	if err != nil {
		return SummarizeOut{}, err
	}
	return d.summarized(s), nil
}

func toSummarize(ctx context.Context, text string, limit int) (*Document, int, error) {
	if limit == 0 {
		limit = summaryLimit
	}
	if limit < 1 {
		return nil, 0, service.Errorf("the maximum length of the summary is %d; give at least 1", limit)
	}
	d, err := read(ctx, text)
	return d, limit, err
}

// summarized adds the length and the compression ratio of summary s, both in code points.
func (d *Document) summarized(s string) SummarizeOut {
	n := utf8.RuneCountInString(s)
	share := 100 * float64(n) / float64(utf8.RuneCountInString(d.text))
	return SummarizeOut{Summary: s, Length: n, CompressionRatio: fmt.Sprintf("%.1f%%", share)}
}
