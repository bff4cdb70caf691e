package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"regexp/syntax"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/workspace/internal/root"
)

const (
	// searchTime bounds a search, searchEntries and searchBytes what it looks at.
	searchTime    = 15 * time.Second
	searchEntries = 200_000
	searchBytes   = 512 << 20
	// maxLine is the most bytes of a line in a result.
	maxLine = 400
	// maxPattern is the most bytes of what is looked for, maxProgram the most states
	// of the expression: each byte that is read may take a step in each of them.
	maxPattern = 1000
	maxProgram = 5000
	// shortLine is the most bytes of a line that is matched without a look at the
	// clock.
	shortLine = 4 << 10
	// MaxMatches is the most matches of a search.
	MaxMatches = 1000
)

// Query is what Search looks for.
type Query struct {
	Pattern string
	// Regexp says that the pattern is a regular expression; otherwise it is text.
	Regexp, Case bool
	// Names looks in paths instead of contents.
	Names bool
	// Glob is a pattern that a file's name, or its path where it has a slash, fits.
	Glob       string
	Everything bool
	Limit      int
}

// Match is a place where a search found something.
type Match struct {
	Path string `json:"path"`
	Line int    `json:"line,omitzero" jsonschema:"number of the line, from 1"`
	Text string `json:"text,omitzero" jsonschema:"the line, at most 400 bytes of it around the match"`
}

// Found is what a search found.
type Found struct {
	Matches []Match
	Files   int
	// Why says why the search did not look at everything; empty if it did.
	Why string
}

// Search looks for a pattern in the files of a directory, or in one file. Time is in
// proportion to what is read, whatever the pattern.
func Search(ctx context.Context, p root.Place, q Query) (Found, error) {
	s := &search{Query: q}
	var err error
	if s.pattern, s.literal, err = q.compile(); err != nil {
		return s.Found, err
	}
	if _, err := path.Match(q.Glob, ""); err != nil || len(q.Glob) > maxPattern {
		return s.Found, service.Errorf("glob is not a pattern such as *.go or src/*.go")
	}
	info, err := p.FS.Stat(p.Path)
	if err != nil {
		return s.Found, explain(p, err)
	}
	ctx, cancel := context.WithTimeout(ctx, searchTime)
	defer cancel()
	s.ctx = ctx
	if !info.IsDir() {
		if err := plain(p, info); err != nil {
			return s.Found, err
		}
		err = s.visit(Entry{Place: p, Name: path.Base(p.Path), near: p})
	} else {
		err = Walk(ctx, p, Options{Everything: q.Everything, Depth: maxLevels}, s.visit)
	}
	switch {
	case err == nil, errors.Is(err, ErrStop):
	case errors.Is(err, context.DeadlineExceeded):
		s.Why = "the search took too long: look in a directory, or give a glob"
	default:
		return s.Found, err
	}
	return s.Found, nil
}

// compile makes the pattern, and the text that each match of it contains.
func (q Query) compile() (*regexp.Regexp, literal, error) {
	expression := q.Pattern
	switch {
	case q.Pattern == "":
		return nil, literal{}, service.Errorf("there is nothing to look for: query is empty")
	case len(q.Pattern) > maxPattern:
		return nil, literal{}, service.Errorf("query is longer than %d bytes", maxPattern)
	case !q.Regexp:
		return nil, newLiteral(q.Pattern, !q.Case), nil
	case !q.Case:
		expression = "(?i:" + expression + ")"
	}
	parsed, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return nil, literal{}, service.Errorf("query is not a regular expression of RE2: %v", err)
	}
	required := requires(parsed)
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil || len(program.Inst) > maxProgram {
		return nil, literal{}, service.Errorf("query is a regular expression that is too large: let it repeat less, such as .{0,50} for .{0,1000}")
	}
	pattern, err := regexp.Compile(expression)
	return pattern, required, err
}

type search struct {
	Query
	Found
	ctx context.Context
	// pattern is nil for a plain text.
	pattern *regexp.Regexp
	// literal is the text itself, or one that each match of the pattern contains; empty
	// if there is none.
	literal literal
	entries int
	bytes   int64
	// folded is room for the folded text of one file after the other.
	folded []byte
}

func (s *search) visit(e Entry) error {
	if s.entries++; s.entries > searchEntries {
		return s.stop("the directory has more than is looked at: look in a part of it")
	}
	if e.Cut {
		s.Why = "a directory has more entries than are looked at"
	}
	if e.Depth == maxLevels && e.Mode.IsDir() {
		s.Why = fmt.Sprintf("%s, and perhaps others, is more than the %d levels deep that are looked at: look in it", e.Place, maxLevels)
	}
	if s.Names {
		if s.fits(e) && s.find(e.Place.Path, s.literal.prepare([]byte(e.Place.Path), nil)) >= 0 {
			return s.add(Match{Path: e.Place.String()})
		}
		return nil
	}
	if e.Mode&(fs.ModeDir|fs.ModeSymlink) != 0 || !s.fits(e) {
		return nil
	}
	data, _, err := readAll(e.near)
	if errors.Is(err, errLarge) {
		s.Why = fmt.Sprintf("%s, and perhaps others, has more than the %d MiB that are looked at", e.Place, MaxFile>>20)
	}
	if err != nil {
		return nil // not for us to read: the others are
	}
	s.Files++
	if s.bytes += int64(len(data)); s.bytes > searchBytes {
		return s.stop("more than %d MiB were read: look in a directory, or give a glob", searchBytes>>20)
	}
	if !IsText(data) {
		return nil
	}
	return s.content(e.Place, data)
}

// content looks for matches in a text, at most one in a line. Only lines with the literal are
// looked at, so the expression is tried where it may match.
func (s *search) content(p root.Place, text []byte) error {
	s.folded = s.literal.prepare(text, s.folded)
	folded := s.folded
	number, at := 0, 0 // the lines of text before at
	for from := 0; from < len(folded); {
		if err := s.ctx.Err(); err != nil {
			return err
		}
		found := s.literal.index(folded[from:])
		if found < 0 {
			break
		}
		// Folding keeps the ends of lines, so lines of both texts have the same numbers.
		skip := bytes.Count(folded[from:from+found], newline)
		begin := from + bytes.LastIndexByte(folded[from:from+found], '\n') + 1
		end := lineEnd(folded, from+found)
		for range skip {
			at = lineEnd(text, at)
		}
		number += skip + 1
		next := lineEnd(text, at)
		line := strings.TrimRight(string(text[at:next]), "\r\n")
		if where := s.find(line, bytes.TrimRight(folded[begin:end], "\r\n")); where >= 0 {
			if err := s.add(Match{Path: p.String(), Line: number, Text: around(line, where)}); err != nil {
				return err
			}
		}
		from, at = end, next
	}
	return s.ctx.Err()
}

var newline = []byte("\n")

// lineEnd is where the line after the one at a place begins.
func lineEnd(text []byte, at int) int {
	if end := bytes.IndexByte(text[at:], '\n'); end >= 0 {
		return at + end + 1
	}
	return len(text)
}

// find is where in a line the match is; -1 for nowhere, or when time is over. folded is the
// line as the literal is looked for in it.
func (s *search) find(line string, folded []byte) int {
	if s.pattern == nil {
		at := s.literal.index(folded)
		if at < 0 || !s.literal.fold {
			return at
		}
		return unfolded(line, at)
	}
	at := []int(nil)
	if len(line) <= shortLine {
		at = s.pattern.FindStringIndex(line)
	} else {
		at = s.pattern.FindReaderIndex(&timed{ctx: s.ctx, text: line})
	}
	if at == nil || s.ctx.Err() != nil {
		return -1
	}
	return at[0]
}

// timed gives the runes of a text, and ends with its context.
type timed struct {
	ctx  context.Context
	text string
	read int
}

func (t *timed) ReadRune() (rune, int, error) {
	if t.read++; t.text == "" || t.read%1024 == 0 && t.ctx.Err() != nil {
		return 0, 0, io.EOF
	}
	r, size := utf8.DecodeRuneInString(t.text)
	t.text = t.text[size:]
	return r, size, nil
}

// around is a line, cut to what is near a place in it.
func around(line string, at int) string {
	if len(line) <= maxLine {
		return line
	}
	from := max(0, min(at-maxLine/4, len(line)-maxLine))
	for from > 0 && !utf8.RuneStart(line[from]) {
		from--
	}
	return strings.ToValidUTF8(line[from:from+maxLine], "")
}

func (s *search) fits(e Entry) bool {
	name := e.Name
	if strings.Contains(s.Glob, "/") {
		name = e.Place.Path
	}
	ok, _ := path.Match(s.Glob, name)
	return s.Glob == "" || ok
}

func (s *search) add(m Match) error {
	if len(s.Matches) == s.Limit {
		return s.stop("there are more than %d matches", s.Limit)
	}
	s.Matches = append(s.Matches, m)
	return nil
}

func (s *search) stop(format string, args ...any) error {
	s.Why = service.Errorf(format, args...).Error()
	return ErrStop
}
