// Package report finds the failed tests in the output of a test runner: go test, with and without -json,
// pytest, jest, and JUnit XML. It does not trust its input: everything is bounded, and lines that it does
// not understand are ignored. Start at Reader.
package report

import (
	"bytes"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Report is the result of a test run.
type Report struct {
	// Format is the format of the output: go, pytest, jest or junit.
	Format   string    `json:"format" jsonschema:"format of the output: go, pytest, jest or junit"`
	Passed   int       `json:"passed" jsonschema:"passed tests, if the output says so"`
	Failed   int       `json:"failed"`
	Skipped  int       `json:"skipped,omitzero"`
	Failures []Failure `json:"failures" jsonschema:"the first 100 failures"`
}

// Failure is a failed test, or a part that could not be built.
type Failure struct {
	Name    string `json:"name"`
	File    string `json:"file,omitzero"`
	Line    int    `json:"line,omitzero"`
	Message string `json:"message,omitzero" jsonschema:"message of the test, up to 1 KiB"`
}

const (
	maxFailures = 100
	maxMessage  = 1 << 10
	maxName     = 512
	// maxLine is how many bytes of a line are read, maxText of a line for people. maxOpen is the
	// number of concurrent tests whose output is kept until it is known whether they fail.
	maxLine = 64 << 10
	maxText = 4 << 10
	maxOpen = 1000
	maxXML  = 8 << 20
)

// parser reads the output line by line.
type parser interface {
	// line receives a line without its line end.
	line(text string)
	// report returns nil if the output has another format.
	report() *Report
}

// Reader reads the output while it is written, in parts of any size.
type Reader struct {
	// whole read whole lines, texts the lines for people.
	whole, texts []parser
	rest         []byte
	// cut is set while the rest of an overlong line is skipped.
	cut bool
}

// NewReader returns a reader for one run.
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

// Report returns the findings so far; nil for none.
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

// Plain returns text without colours, control characters and invalid UTF-8, to be shown to people and
// models.
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

// add adds a failure, up to the limits.
func (r *Report) add(f Failure) {
	if r.Failed++; len(r.Failures) < maxFailures {
		f.Name, f.Message, f.File = clip(f.Name, maxName), clip(strings.Trim(f.Message, "\n"), maxMessage), clip(f.File, maxName)
		r.Failures = append(r.Failures, f)
	}
}

// clip keeps the beginning of s.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// grow appends a line to a message.
func grow(message, line string) string {
	if len(message) > maxMessage {
		return message
	}
	return message + clip(line, maxMessage) + "\n"
}

// place returns the first match of a pattern with file and line.
func place(pattern *regexp.Regexp, text string) (file string, line int) {
	m := pattern.FindStringSubmatch(text)
	if m == nil {
		return "", 0
	}
	return m[1], number(m[2])
}

// number parses a small number; 0 for anything else.
func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > 1<<30 {
		return 0
	}
	return n
}
