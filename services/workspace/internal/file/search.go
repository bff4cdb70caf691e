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
	// searchTime bounds the time of a search, searchEntries and searchBytes its work.
	//limit:files time of a search | it ends there
	searchTime = 15 * time.Second
	//limit:files entries that a search visits | it ends there
	searchEntries = 200_000
	searchBytes   = 512 << 20
	// maxLine is the number of bytes of a line that a result shows.
	maxLine = 400
	// maxPattern is the longest query in bytes, maxProgram the largest number of states
	// of the expression: each byte that is read may take a step in each of them.
	maxPattern = 1000
	maxProgram = 5000
	// shortLine is the longest line, in bytes, that is matched without checking the
	// time.
	shortLine = 4 << 10
	// MaxMatches is the largest number of matches of a search.
	MaxMatches = 1000
)

// Query says what Search looks for.
type Query struct {
	Pattern string
	// Regexp: the pattern is a regular expression, not a text. Case: case matters.
	Regexp, Case bool
	// Names: search in paths instead of contents.
	Names bool
	// Glob is a pattern for the file's name, or for its path if the pattern has a slash.
	Glob       string
	Everything bool
	Limit      int
}

// Match is one find of a search.
type Match struct {
	Path string `json:"path"`
	Line int    `json:"line,omitzero" jsonschema:"number of the line, from 1"`
	Text string `json:"text,omitzero" jsonschema:"the line, or 400 bytes of it around the match"`
}

// Found is the result of a search.
type Found struct {
	Matches []Match
	Files   int
	// Why says why the search is incomplete; empty if it is complete.
	Why string
}

// Search searches the files of a directory, or one file. Time is in proportion to the bytes read, whatever
// the pattern.
func Search(ctx context.Context, p root.Place, q Query) (Found, error) {
	s := &search{Query: q}
	var err error
	if s.pattern, s.literal, err = q.compile(); err != nil {
		return s.Found, err
	}
	if _, err := path.Match(q.Glob, ""); err != nil || len(q.Glob) > maxPattern {
		return s.Found, service.Errorf("glob %.100q is not a valid pattern; write one such as *.go or src/*.go", q.Glob)
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
		s.Why = "the search took too long; search in one directory, or give a glob"
	default:
		return s.Found, err
	}
	return s.Found, nil
}

// compile returns the pattern, and the text that every match of it contains.
func (q Query) compile() (*regexp.Regexp, literal, error) {
	expression := q.Pattern
	switch {
	case q.Pattern == "":
		return nil, literal{}, service.Errorf("query is empty; give a text to search for")
	case len(q.Pattern) > maxPattern:
		return nil, literal{}, service.Errorf("query is longer than %d bytes; shorten it", maxPattern)
	case !q.Regexp:
		return nil, newLiteral(q.Pattern, !q.Case), nil
	case !q.Case:
		expression = "(?i:" + expression + ")"
	}
	parsed, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return nil, literal{}, service.Errorf("query is not a valid RE2 regular expression: %v", err)
	}
	required := requires(parsed)
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil || len(program.Inst) > maxProgram {
		return nil, literal{}, service.Errorf("query is too large a regular expression; use smaller repetitions, such as .{0,50} instead of .{0,1000}")
	}
	pattern, err := regexp.Compile(expression)
	return pattern, required, err
}

type search struct {
	Query
	Found
	ctx context.Context
	// pattern is nil if the query is plain text.
	pattern *regexp.Regexp
	// literal is the text itself, or a text that every match of the pattern contains; empty for
	// none.
	literal literal
	entries int
	bytes   int64
	// folded is a buffer, reused for the folded text of each file.
	folded []byte
}

func (s *search) visit(e Entry) error {
	if s.entries++; s.entries > searchEntries {
		return s.stop("the directory has too many entries to search; search in a part of it")
	}
	if e.Cut {
		s.Why = "a directory has too many entries; some were not searched"
	}
	if e.Depth == maxLevels && e.Mode.IsDir() {
		s.Why = fmt.Sprintf("%s, and perhaps others, is deeper than %d levels and was not searched; search in it", e.Place, maxLevels)
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
		s.Why = fmt.Sprintf("%s, and perhaps others, is larger than %d MiB and was not searched", e.Place, MaxFile>>20)
	}
	if err != nil {
		return nil // not readable for us; go on with the others
	}
	s.Files++
	if s.bytes += int64(len(data)); s.bytes > searchBytes {
		return s.stop("the search stopped after %d MiB; search in one directory, or give a glob", searchBytes>>20)
	}
	if !IsText(data) {
		return nil
	}
	return s.content(e.Place, data)
}

// content searches a text for matches, at most one in a line. It tries the expression only on lines with
// the literal, where it may match.
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
		// Folding keeps line ends, so line numbers are the same in both texts.
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

// lineEnd returns the start of the line after the one at a position.
func lineEnd(text []byte, at int) int {
	if end := bytes.IndexByte(text[at:], '\n'); end >= 0 {
		return at + end + 1
	}
	return len(text)
}

// find returns the offset of the match in a line; -1 without a match, or if time is over. folded is
// the line in the form in which the literal is searched.
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

// timed reads the runes of a text, until its context ends.
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

// around cuts a line to the part near an offset.
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
		return s.stop("there are more than %d matches; raise limit, or search in one directory", s.Limit)
	}
	s.Matches = append(s.Matches, m)
	return nil
}

func (s *search) stop(format string, args ...any) error {
	s.Why = service.Errorf(format, args...).Error()
	return ErrStop
}
