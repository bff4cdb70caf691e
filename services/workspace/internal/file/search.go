package file

import (
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
	if s.pattern, err = q.compile(); err != nil {
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
		err = s.visit(Entry{Place: p, Name: path.Base(p.Path)})
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

func (q Query) compile() (*regexp.Regexp, error) {
	expression := q.Pattern
	switch {
	case q.Pattern == "":
		return nil, service.Errorf("there is nothing to look for: query is empty")
	case len(q.Pattern) > maxPattern:
		return nil, service.Errorf("query is longer than %d bytes", maxPattern)
	case !q.Regexp:
		expression = regexp.QuoteMeta(q.Pattern)
	}
	if !q.Case {
		expression = "(?i:" + expression + ")"
	}
	parsed, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return nil, service.Errorf("query is not a regular expression of RE2: %v", err)
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil || len(program.Inst) > maxProgram {
		return nil, service.Errorf("query is a regular expression that is too large: let it repeat less, such as .{0,50} for .{0,1000}")
	}
	return regexp.Compile(expression)
}

type search struct {
	Query
	Found
	ctx     context.Context
	pattern *regexp.Regexp
	entries int
	bytes   int64
}

func (s *search) visit(e Entry) error {
	if s.entries++; s.entries > searchEntries {
		return s.stop("the directory has more than is looked at: look in a part of it")
	}
	if e.Cut {
		s.Why = "a directory has more entries than are looked at"
	}
	if s.Names {
		if s.fits(e) && s.pattern.MatchString(e.Place.Path) {
			return s.add(Match{Path: e.Place.String()})
		}
		return nil
	}
	if e.Mode&(fs.ModeDir|fs.ModeSymlink) != 0 || !s.fits(e) {
		return nil
	}
	c, err := Read(e.Place)
	if errors.Is(err, errLarge) {
		s.Why = fmt.Sprintf("%s, and perhaps others, has more than the %d MiB that are looked at", e.Place, MaxFile>>20)
	}
	if err != nil {
		return nil // not for us to read: the others are
	}
	s.Files++
	if s.bytes += int64(len(c.Data)); s.bytes > searchBytes {
		return s.stop("more than %d MiB were read: look in a directory, or give a glob", searchBytes>>20)
	}
	if !IsText(c.Data) {
		return nil
	}
	return s.content(e.Place, string(c.Data))
}

// content looks in a text line by line, unless a plain query is not in it at all.
func (s *search) content(p root.Place, text string) error {
	if !s.Regexp && !s.pattern.MatchString(text) {
		return nil
	}
	number := 0
	for line := range strings.Lines(text) {
		if err := s.ctx.Err(); err != nil {
			return err
		}
		number++
		line = strings.TrimRight(line, "\r\n")
		if at := s.find(line); at >= 0 {
			if err := s.add(Match{Path: p.String(), Line: number, Text: around(line, at)}); err != nil {
				return err
			}
		}
	}
	return s.ctx.Err()
}

// find is where in a line the pattern is; -1 for nowhere, or when time is over.
func (s *search) find(line string) int {
	at := []int(nil)
	if !s.Regexp || len(line) <= shortLine {
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
