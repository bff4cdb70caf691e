package text

import "github.com/busbar-mcp/busbar/services/text/internal/tidy"

// AnalyzeIn holds the arguments of analyzeText.
type AnalyzeIn struct {
	Text string `json:"text" jsonschema:"Text to analyze, in any language; at most 512 KiB; without words, all counts are zero"`
}

// AnalyzeOut is the result of analyzeText.
type AnalyzeOut struct {
	Statistics Statistics  `json:"statistics" jsonschema:"Counts and averages"`
	TopWords   []WordCount `json:"topWords" jsonschema:"The ten most frequent words, without function words such as articles and prepositions"`
}

// Statistics are the counts and averages of a text.
type Statistics struct {
	SentenceCount         int     `json:"sentenceCount" jsonschema:"Sentences, headings and list items"`
	WordCount             int     `json:"wordCount" jsonschema:"Words with a letter or digit, as keywords count them: Chinese is cut into words"`
	AverageWordLength     float64 `json:"averageWordLength" jsonschema:"Characters per word, to one decimal"`
	AverageSentenceLength float64 `json:"averageSentenceLength" jsonschema:"Words per sentence, to one decimal"`
	CharacterCount        int     `json:"characterCount" jsonschema:"Characters (Unicode code points), spaces and punctuation included"`
}

// WordCount is a word and how often it occurs.
type WordCount struct {
	Word  string `json:"word" jsonschema:"Word in lower case, unless always written with inner capitals"`
	Count int    `json:"count" jsonschema:"How often it occurs in exactly this form"`
}

// SummarizeIn holds the arguments of summarizeText.
type SummarizeIn struct {
	Text string `json:"text"`
	// MaxLength is in code points; 0 means 200.
	MaxLength int `json:"maxLength,omitzero"`
	// Method is extractive (the default) or model.
	Method string `json:"method,omitzero"`
}

// SummarizeOut is the result of summarizeText.
type SummarizeOut struct {
	Summary          string `json:"summary" jsonschema:"The most central sentences, in their original order; or what the client's model wrote"`
	Length           int    `json:"length" jsonschema:"Characters of the summary (Unicode code points)"`
	CompressionRatio string `json:"compressionRatio" jsonschema:"Length of the summary as a share of the text's, such as 25.0%"`
	// Method and Note are set only if the caller asked for the model.
	Method string `json:"method,omitzero" jsonschema:"How the summary was made (model or extractive), if the caller asked for the method model"`
	Note   string `json:"note,omitzero" jsonschema:"Why the summary was not made with the requested method"`
}

// EntitiesIn holds the arguments of extractEntities.
type EntitiesIn struct {
	Text string `json:"text" jsonschema:"Text to search, in English, Polish, Russian or Chinese; at most 512 KiB"`
}

// EntitiesOut is the result of extractEntities.
type EntitiesOut struct {
	Entities Entities `json:"entities" jsonschema:"Entities as first written in the text, in order of first appearance"`
}

// Entities are lists without repeats, empty if nothing was found.
type Entities struct {
	Technologies []string `json:"technologies" jsonschema:"Products, protocols, languages, acronyms and other capitalised names"`
	Concepts     []string `json:"concepts" jsonschema:"Parts of software, such as tools, functions and resources"`
	Processes    []string `json:"processes" jsonschema:"Activities of software, such as communication and validation"`
}

// ProcessorIn holds the arguments of text_processor. Options of an operation that was not requested are
// ignored.
type ProcessorIn struct {
	// Operation is format, statistics, extract_entities, summarize or
	// find_keywords.
	Operation string `json:"operation"`
	Text      string `json:"text"`
	// StatOptions selects from chars, words, sentences, paragraphs, readability;
	// empty means all.
	StatOptions []string `json:"stat_options,omitempty"`
	// EntityTypes selects from emails, urls, phone_numbers; empty means all.
	EntityTypes []string `json:"entity_types,omitempty"`
	// FormatOptions: empty means tidy.Default.
	FormatOptions []tidy.Option `json:"format_options,omitempty"`
	// MaxLength is in code points; 0 means 200.
	MaxLength int `json:"max_length,omitzero"`
	// MaxKeywords 0 means 10.
	MaxKeywords int `json:"max_keywords,omitzero"`
}

// ProcessorOut is the result of text_processor: the operation, and the fields of its result beside it. A
// nil pointer or list means absent, in contrast to zero or empty.
type ProcessorOut struct {
	Operation string `json:"operation"`

	// format
	Text *string `json:"text,omitzero"`

	// statistics; Chars are code points in Unicode NFC.
	Chars       *int         `json:"chars,omitzero"`
	Words       *int         `json:"words,omitzero"`
	Sentences   *int         `json:"sentences,omitzero"`
	Paragraphs  *int         `json:"paragraphs,omitzero"`
	Readability *Readability `json:"readability,omitzero"`

	// extract_entities
	Emails       []string `json:"emails,omitzero"`
	URLs         []string `json:"urls,omitzero"`
	PhoneNumbers []string `json:"phone_numbers,omitzero"`

	// summarize; Length is in code points.
	Summary          *string `json:"summary,omitzero"`
	Length           *int    `json:"length,omitzero"`
	CompressionRatio *string `json:"compression_ratio,omitzero"`

	// find_keywords, best first.
	Keywords []Keyword `json:"keywords,omitzero"`
}

// Readability is a text's score by a formula for its language; package readability describes the scales.
type Readability struct {
	Score    float64 `json:"score"`
	Formula  string  `json:"formula"`
	Level    string  `json:"level"`
	Language string  `json:"language"`
}

// Keyword is a word of the text, how often it occurs in any form, and its weight: at most 1, the weight of
// the best keyword.
type Keyword struct {
	Word  string  `json:"word"`
	Count int     `json:"count"`
	Score float64 `json:"score"`
}
