package text

import "github.com/busbar-mcp/busbar/services/text/internal/tidy"

// AnalyzeIn is what analyzeText takes.
type AnalyzeIn struct {
	Text string `json:"text" jsonschema:"Text to analyze, in any language; at most 512 KiB; one without words counts zero"`
}

// AnalyzeOut is what analyzeText returns.
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

// SummarizeIn is what summarizeText takes.
type SummarizeIn struct {
	Text string `json:"text"`
	// MaxLength is in code points; 0 stands for 200.
	MaxLength int `json:"maxLength,omitzero"`
	// Method is extractive or model; none: extractive.
	Method string `json:"method,omitzero"`
}

// SummarizeOut is what summarizeText returns.
type SummarizeOut struct {
	Summary          string `json:"summary" jsonschema:"The most central sentences, in their original order; or what the client's model wrote"`
	Length           int    `json:"length" jsonschema:"Characters of the summary (Unicode code points)"`
	CompressionRatio string `json:"compressionRatio" jsonschema:"Length of the summary as a share of the text's, such as 25.0%"`
	// Method and Note are there only when the model was asked for.
	Method string `json:"method,omitzero" jsonschema:"How the summary was made, if a method was asked for other than extractive: model or extractive"`
	Note   string `json:"note,omitzero" jsonschema:"Why the summary was not made as asked for"`
}

// EntitiesIn is what extractEntities takes.
type EntitiesIn struct {
	Text string `json:"text" jsonschema:"Text to search, in English, Polish, Russian or Chinese; at most 512 KiB"`
}

// EntitiesOut is what extractEntities returns.
type EntitiesOut struct {
	Entities Entities `json:"entities" jsonschema:"Finds as first written in the text, in order of first appearance"`
}

// Entities are lists without repeats, empty where nothing was found.
type Entities struct {
	Technologies []string `json:"technologies" jsonschema:"Products, protocols, languages, acronyms and other capitalised names"`
	Concepts     []string `json:"concepts" jsonschema:"Things software is made of, such as tools, functions and resources"`
	Processes    []string `json:"processes" jsonschema:"Things software does, such as communication and validation"`
}

// ProcessorIn is what text_processor takes. Options of another operation than
// the one asked for are ignored.
type ProcessorIn struct {
	// Operation is format, statistics, extract_entities, summarize or
	// find_keywords.
	Operation string `json:"operation"`
	Text      string `json:"text"`
	// StatOptions are of chars, words, sentences, paragraphs, readability;
	// none: all.
	StatOptions []string `json:"stat_options,omitempty"`
	// EntityTypes are of emails, urls, phone_numbers; none: all.
	EntityTypes []string `json:"entity_types,omitempty"`
	// FormatOptions none: tidy.Default.
	FormatOptions []tidy.Option `json:"format_options,omitempty"`
	// MaxLength is in code points; 0 stands for 200.
	MaxLength int `json:"max_length,omitzero"`
	// MaxKeywords 0 stands for 10.
	MaxKeywords int `json:"max_keywords,omitzero"`
}

// ProcessorOut is what text_processor returns: the operation, and the fields of
// its result beside it. Pointers and nil lists tell what is absent from what
// is zero or empty.
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

// Readability is the score of a text by a formula for its language; package
// readability has the scales.
type Readability struct {
	Score    float64 `json:"score"`
	Formula  string  `json:"formula"`
	Level    string  `json:"level"`
	Language string  `json:"language"`
}

// Keyword is a word of the text with how often it occurs in any form, and its
// weight: at most 1, which the best one has.
type Keyword struct {
	Word  string  `json:"word"`
	Count int     `json:"count"`
	Score float64 `json:"score"`
}
