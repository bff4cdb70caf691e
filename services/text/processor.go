package text

import (
	"context"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/text/internal/contact"
	"github.com/busbar-mcp/busbar/services/text/internal/readability"
	"github.com/busbar-mcp/busbar/services/text/internal/segment"
	"github.com/busbar-mcp/busbar/services/text/internal/statistics"
	"github.com/busbar-mcp/busbar/services/text/internal/tidy"
)

const keywordLimit = 10 // default of max_keywords

// operations lists the operations of text_processor in the order of its schema.
var operations = []struct {
	name string
	run  func(out *ProcessorOut, ctx context.Context, in ProcessorIn) error
}{
	{"format", (*ProcessorOut).format},
	{"statistics", (*ProcessorOut).statistics},
	{"extract_entities", (*ProcessorOut).contacts},
	{"summarize", (*ProcessorOut).summarize},
	{"find_keywords", (*ProcessorOut).keywords},
}

// processor performs one operation of text_processor.
func processor(ctx context.Context, _ *service.Call, in ProcessorIn) (ProcessorOut, error) {
	var names []string
	for _, o := range operations {
		if o.name == in.Operation {
			out := ProcessorOut{Operation: in.Operation}
			if err := o.run(&out, ctx, in); err != nil {
				return ProcessorOut{}, err
			}
			return out, nil
		}
		names = append(names, o.name)
	}
	return ProcessorOut{}, service.Errorf("unknown operation %q; use one of %s", in.Operation, strings.Join(names, ", "))
}

func (out *ProcessorOut) format(_ context.Context, in ProcessorIn) error {
	if err := check(in.Text); err != nil {
		return err
	}
	options := in.FormatOptions
	if len(options) == 0 {
		options = tidy.Default
	}
	out.Text = new(tidy.Apply(in.Text, options))
	return nil
}

// wants reports whether the caller asked for name; an empty list asks for everything.
func wants(asked []string, name string) bool {
	return len(asked) == 0 || slices.Contains(asked, name)
}

func (out *ProcessorOut) statistics(ctx context.Context, in ProcessorIn) error {
	d, err := read(ctx, in.Text)
	if err != nil {
		return err
	}
	if wants(in.StatOptions, "chars") {
		out.Chars = new(utf8.RuneCountInString(d.text))
	}
	words, sentences := wants(in.StatOptions, "words"), wants(in.StatOptions, "sentences")
	if words || sentences {
		counts, err := statistics.Count(ctx, d.sentences())
		if err != nil {
			return err
		}
		if words {
			out.Words = &counts.Words
		}
		if sentences {
			out.Sentences = &counts.Sentences
		}
	}
	if wants(in.StatOptions, "paragraphs") {
		out.Paragraphs = new(segment.Paragraphs(d.text))
	}
	if wants(in.StatOptions, "readability") {
		r, err := readability.Rate(ctx, d.sentences(), d.language())
		if err != nil {
			return err
		}
		out.Readability = &Readability{Score: r.Score, Formula: r.Formula, Level: r.Level, Language: string(r.Language)}
	}
	return nil
}

func (out *ProcessorOut) contacts(ctx context.Context, in ProcessorIn) error {
	if err := check(in.Text); err != nil {
		return err
	}
	for _, kind := range []struct {
		name string
		find func(context.Context, string) ([]string, error)
		into *[]string
	}{
		{"emails", contact.Emails, &out.Emails},
		{"urls", contact.URLs, &out.URLs},
		{"phone_numbers", contact.Phones, &out.PhoneNumbers},
	} {
		if !wants(in.EntityTypes, kind.name) {
			continue
		}
		found, err := kind.find(ctx, in.Text)
		if err != nil {
			return err
		}
		*kind.into = found
	}
	return nil
}

func (out *ProcessorOut) summarize(ctx context.Context, in ProcessorIn) error {
	s, err := summarize(ctx, in.Text, in.MaxLength)
	if err != nil {
		return err
	}
	out.Summary, out.Length, out.CompressionRatio = &s.Summary, &s.Length, &s.CompressionRatio
	return nil
}

func (out *ProcessorOut) keywords(ctx context.Context, in ProcessorIn) error {
	n := in.MaxKeywords
	if n == 0 {
		n = keywordLimit
	}
	if n < 1 {
		return service.Errorf("max_keywords is %d; give at least 1", n)
	}
	d, err := read(ctx, in.Text)
	if err != nil {
		return err
	}
	out.Keywords, err = d.Keywords(ctx, n)
	return err
}
