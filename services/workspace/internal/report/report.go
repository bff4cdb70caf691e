// Package report finds out what failed in what a test runner writes: go test, with and without
// -json, pytest, jest, and JUnit's XML. What it reads is anybody's: all is bounded, and what
// is not understood is left alone.
package report

import (
	"bytes"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Report is what was found.
type Report struct {
	// Format is whose words were understood: go, pytest, jest or junit.
	Format   string    `json:"format" jsonschema:"whose output it is: go, pytest, jest or junit"`
	Passed   int       `json:"passed" jsonschema:"tests that passed, as far as the output says it"`
	Failed   int       `json:"failed"`
	Skipped  int       `json:"skipped,omitzero"`
	Failures []Failure `json:"failures" jsonschema:"the first 100 that failed"`
}

// Failure is a test that failed, or what could not be built.
type Failure struct {
	Name    string `json:"name"`
	File    string `json:"file,omitzero"`
	Line    int    `json:"line,omitzero"`
	Message string `json:"message,omitzero" jsonschema:"what it said, up to 1 KiB"`
}

const (
	maxFailures = 100
	maxMessage  = 1 << 10
	maxName     = 512
	// maxLine is the most of a line that is looked at, maxText of one that is for people, and maxOpen how many tests at once have their
	// words kept until it is known whether they fail.
	maxLine = 64 << 10
	maxText = 4 << 10
	maxOpen = 1000
	maxXML  = 8 << 20
)

// parser takes the output line by line.
type parser interface {
	// line gets a line without its end.
	line(text string)
	// report is nil if the output is not what it understands.
	report() *Report
}

// Reader is given the output while it is written, in any parts.
type Reader struct {
	// whole look at whole lines, texts at what is for people to read.
	whole, texts []parser
	rest         []byte
	// cut is set in the rest of a line that is too long.
	cut bool
}

// NewReader makes a reader for one run.
func NewReader() *Reader {
	return &Reader{whole: []parser{&junitOutput{}, newGoJSON()}, texts: []parser{&pytest{}, &jest{}, newGoText()}}
}

// Write never fails.
func (r *Reader) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		part, after, ended := bytes.Cut(b, []byte("\n"))
		if !r.cut {
			room := maxLine - len(r.rest)
			r.rest = append(r.rest, part[:min(len(part), room)]...)
			r.cut = len(part) > room
		}
		if ended {
			r.flush()
		}
		b = after
	}
	return n, nil
}

func (r *Reader) flush() {
	text := Plain(strings.TrimSuffix(string(r.rest), "\r"))
	for _, p := range r.whole {
		p.line(text)
	}
	text = clip(text, maxText)
	for _, p := range r.texts {
		p.line(text)
	}
	r.rest, r.cut = r.rest[:0], false
}

// Report is what was found so far; nil for nothing.
func (r *Reader) Report() *Report {
	if len(r.rest) > 0 {
		r.flush()
	}
	for _, p := range slices.Concat(r.whole, r.texts) {
		if found := p.report(); found != nil {
			return found
		}
	}
	return nil
}

var escapes = regexp.MustCompile(`\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])`)

// Plain is text without colours, control characters and what is no UTF-8: it is shown to
// people and models.
func Plain(text string) string {
	if strings.IndexByte(text, 0x1b) >= 0 {
		text = escapes.ReplaceAllString(text, "")
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r < ' ' || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069:
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
}

// add adds a failure, within the bounds.
func (r *Report) add(f Failure) {
	if r.Failed++; len(r.Failures) < maxFailures {
		f.Name, f.Message, f.File = clip(f.Name, maxName), clip(strings.Trim(f.Message, "\n"), maxMessage), clip(f.File, maxName)
		r.Failures = append(r.Failures, f)
	}
}

// clip keeps the beginning.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// grow appends a line to a message that is being gathered.
func grow(message, line string) string {
	if len(message) > maxMessage {
		return message
	}
	return message + clip(line, maxMessage) + "\n"
}

// place is where the first match of a pattern with file and line is.
func place(pattern *regexp.Regexp, text string) (file string, line int) {
	m := pattern.FindStringSubmatch(text)
	if m == nil {
		return "", 0
	}
	return m[1], number(m[2])
}

// number is a small number; 0 for anything else.
func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > 1<<30 {
		return 0
	}
	return n
}
