// Package text is the service with the text tools analyzeText, summarizeText, extractEntities and
// text_processor. They know English, Polish, Russian and Chinese, and give reasonable results for other
// languages. They are pure functions of their arguments (except for a summary that the client's model
// writes): read-only, repeatable, and linear in the text, of which they accept up to 512 KiB, the most
// that an edge accepts in one string. Lengths are in Unicode code points after normalization form C. Start
// at New.
package text

import (
	"context"
	_ "embed"
	"unicode/utf8"

	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/text/internal/entity"
	"github.com/busbar-mcp/busbar/services/text/internal/statistics"
	"github.com/busbar-mcp/busbar/services/text/internal/term"
)

// Schemas with enums and bounds, which cannot be inferred from Go types.
var (
	//go:embed schema/summarizeText.input.json
	summarizeInput []byte
	//go:embed schema/text_processor.input.json
	processorInput []byte
	//go:embed schema/text_processor.output.json
	processorOutput []byte
)

// topWords is the number of words that analyzeText lists.
const topWords = 10

// Env holds the settings of the service.
type Env struct {
	service.Env
	// Gazetteer is a file with the names that extractEntities knows. If empty,
	// the built-in one is used.
	Gazetteer string `env:"BUSBAR_TEXT_GAZETTEER" placeholder:"FILE" help:"A file with the names that extractEntities finds; it replaces the built-in list."`
}

// New makes the service "text" with its four tools.
func New(_ context.Context, env Env) (*service.Service, error) {
	gazetteer, err := env.gazetteer()
	if err != nil {
		return nil, err
	}
	s := service.New("text", service.WithVersion(env.Version), service.WithLogger(env.Log),
		service.WithDescription("Text tools for English, Polish, Russian and Chinese: statistics, summaries, entities, keywords, formatting"))
	service.AddTool(s, service.Tool{
		Name:        "analyzeText",
		Title:       "Analyze text",
		Description: "Analyzes a text and returns statistics: sentences, words, their average lengths, and the most frequent words.",
		ReadOnly:    true, Idempotent: true,
	}, analyze)
	service.AddTool(s, service.Tool{
		Name:        "summarizeText",
		Title:       "Summarize text",
		Description: "Summarizes a text by its most central sentences, unchanged and in their original order, within maxLength characters; or, with method \"model\", by the client's model where it offers sampling.",
		InputSchema: summarizeInput,
		ReadOnly:    true, Idempotent: true,
	}, summarizeTool)
	service.AddTool(s, service.Tool{
		Name:        "extractEntities",
		Title:       "Extract entities",
		Description: "Extracts entities from a text: technologies, concepts and processes. Known names are found in any inflected form; acronyms and capitalised names that look technical count as technologies.",
		ReadOnly:    true, Idempotent: true,
	}, func(ctx context.Context, _ *service.Call, in EntitiesIn) (EntitiesOut, error) {
		return entitiesBy(ctx, in, gazetteer())
	})
	service.AddTool(s, service.Tool{
		Name:         "text_processor",
		Title:        "Text processor",
		Description:  "Text processing and analysis: formatting, statistics and other operations (extraction of e-mail addresses, URLs and telephone numbers; summaries; keywords).",
		InputSchema:  processorInput,
		OutputSchema: processorOutput,
		ReadOnly:     true, Idempotent: true,
	}, processor)
	return s, nil
}

// analyze accepts an empty text, too: its counts are zero.
func analyze(ctx context.Context, _ *service.Call, in AnalyzeIn) (AnalyzeOut, error) {
	if err := checkSize(in.Text); err != nil {
		return AnalyzeOut{}, err
	}
	d, err := Read(ctx, in.Text)
	if err != nil {
		return AnalyzeOut{}, err
	}
	counts, err := statistics.Count(ctx, d.sentences())
	if err != nil {
		return AnalyzeOut{}, err
	}
	terms, err := d.terms(ctx)
	if err != nil {
		return AnalyzeOut{}, err
	}
	out := AnalyzeOut{
		Statistics: Statistics{
			CharacterCount:        utf8.RuneCountInString(d.text),
			SentenceCount:         counts.Sentences,
			WordCount:             counts.Words,
			AverageWordLength:     counts.WordLength(),
			AverageSentenceLength: counts.SentenceLength(),
		},
		TopWords: []WordCount{},
	}
	for _, c := range term.Top(terms, topWords) {
		out.TopWords = append(out.TopWords, WordCount{Word: c.Word, Count: c.Count})
	}
	return out, nil
}

func entitiesBy(ctx context.Context, in EntitiesIn, g *entity.Gazetteer) (EntitiesOut, error) {
	d, err := read(ctx, in.Text)
	if err != nil {
		return EntitiesOut{}, err
	}
	found, err := entity.Extract(ctx, d.sentences(), d.language(), g)
	if err != nil {
		return EntitiesOut{}, err
	}
	return EntitiesOut{Entities(found)}, nil
}
