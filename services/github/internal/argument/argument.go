// Package argument defines the arguments of GitHub requests. Each kind has a type with its JSON Schema,
// which clients see, and its check, which runs before a handler. A valid argument is encoded for the place
// where it is used, so it can never become another path, query or header. Start at Check.
package argument

import (
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/busbar-mcp/busbar/services/github/internal/limit"
)

// Kinds of arguments. Optional ones are valid when empty.
type (
	// Owner is a user or an organisation.
	Owner string
	// Repo is a repository's name, without its owner.
	Repo string
	// Path is a file or directory in a repository; empty is its root.
	Path string
	// Ref is a branch, a tag or a commit's SHA; optional.
	Ref string
	// Head is owner:branch; optional.
	Head string
	// Query is in GitHub's search syntax.
	Query string
	// Name is a login, or another short text to filter by; optional.
	Name string
	// Label is a label to filter by.
	Label string
	// Time is RFC 3339; optional.
	Time string
	// Number is an issue's or a pull request's.
	Number int
	// Page counts from 1; 0 means 1.
	Page int
	// PerPage 0 means limit.DefaultPerPage.
	PerPage int
	// Bytes is the size of the requested text; 0 means limit.DefaultContent.
	Bytes int
	// LineNo counts a file's lines from 1; 0 means 1.
	LineNo int
)

const (
	ownerPattern = `^[A-Za-z0-9][A-Za-z0-9_-]*$`
	repoPattern  = `^[A-Za-z0-9._-]+$`
)

var (
	ownerGrammar = regexp.MustCompile(ownerPattern)
	repoGrammar  = regexp.MustCompile(repoPattern)
)

// checker is an argument that can check itself. Its errors say what is wrong but never
// repeat the value.
type checker interface{ Check() error }

// Check checks every field of the arguments' struct that is a checker, also in embedded
// structs and slices. The error names the field.
func Check(in any) error { return check(reflect.ValueOf(in)) }

func check(v reflect.Value) error {
	for i := range v.NumField() {
		field, info := v.Field(i), v.Type().Field(i)
		if info.Anonymous {
			if err := check(field); err != nil {
				return err
			}
			continue
		}
		values := []reflect.Value{field}
		if field.Kind() == reflect.Slice {
			values = values[:0]
			for j := range field.Len() {
				values = append(values, field.Index(j))
			}
		}
		for _, value := range values {
			if c, ok := value.Interface().(checker); ok {
				if err := c.Check(); err != nil {
					name, _, _ := strings.Cut(info.Tag.Get("json"), ",")
					return fmt.Errorf("%s: %w", name, err)
				}
			}
		}
	}
	return nil
}

// Check implements checker.
func (o Owner) Check() error {
	if len(o) > limit.Owner || !ownerGrammar.MatchString(string(o)) {
		return errors.New("an owner must be a user's or an organisation's login: letters, digits, - and _, up to 100")
	}
	return nil
}

// Check implements checker.
func (r Repo) Check() error {
	if len(r) > limit.Repo || !repoGrammar.MatchString(string(r)) || r == "." || r == ".." {
		return errors.New("a repository's name must be letters, digits, dots, - and _, up to 100, without its owner")
	}
	return nil
}

// Check implements checker.
func (p Path) Check() error {
	if p == "" {
		return nil
	}
	if len(p) > limit.Path {
		return fmt.Errorf("a path may have at most %d bytes", limit.Path)
	}
	if err := printable(string(p)); err != nil {
		return err
	}
	for segment := range strings.SplitSeq(string(p), "/") {
		switch segment {
		case "":
			return errors.New("a path must be relative to the repository's root, without / at its start or end; omit it for the root")
		case ".", "..":
			return errors.New("a path must not contain . or ..; omit it for the root")
		}
	}
	return nil
}

// Check implements checker, by the rules of git check-ref-format.
func (r Ref) Check() error {
	s := string(r)
	if s == "" {
		return nil
	}
	wrong := errors.New("a ref must be a valid branch, tag or commit SHA")
	if len(s) > limit.Ref || !utf8.ValidString(s) || s == "@" || strings.ContainsAny(s, " ~^:?*[\\") ||
		strings.Contains(s, "..") || strings.Contains(s, "@{") || strings.HasPrefix(s, "-") || strings.HasSuffix(s, ".") {
		return wrong
	}
	if printable(s) != nil {
		return wrong
	}
	for part := range strings.SplitSeq(s, "/") {
		if part == "" || strings.HasPrefix(part, ".") || strings.HasSuffix(part, ".lock") {
			return wrong
		}
	}
	return nil
}

// Segment is the ref as one segment of a URL's path.
func (r Ref) Segment() string { return url.PathEscape(string(r)) }

// Check implements checker.
func (h Head) Check() error {
	if h == "" {
		return nil
	}
	owner, branch, ok := strings.Cut(string(h), ":")
	if !ok || branch == "" || Owner(owner).Check() != nil || Ref(branch).Check() != nil {
		return errors.New("a head must be owner:branch")
	}
	return nil
}

// Check implements checker.
func (q Query) Check() error {
	if strings.TrimSpace(string(q)) == "" || len(q) > limit.Query {
		return fmt.Errorf("a query must have 1 to %d bytes", limit.Query)
	}
	return printable(string(q))
}

// Check implements checker.
func (n Name) Check() error {
	if len(n) > limit.Name {
		return fmt.Errorf("a name may have at most %d bytes", limit.Name)
	}
	return printable(string(n))
}

// Check implements checker.
func (l Label) Check() error {
	if l == "" || strings.Contains(string(l), ",") {
		return errors.New("a label must not be empty or contain a comma")
	}
	return Name(l).Check()
}

// Check implements checker.
func (t Time) Check() error {
	_, err := t.parse()
	return err
}

// Time returns the time; zero if it is not set.
func (t Time) Time() time.Time {
	at, _ := t.parse()
	return at
}

func (t Time) parse() (time.Time, error) {
	if t == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, string(t))
	if err != nil {
		return time.Time{}, errors.New("a time must be in RFC 3339 format, such as 2026-01-31T12:00:00Z")
	}
	return at.UTC(), nil
}

// Check implements checker.
func (n Number) Check() error {
	if n < 1 || n > 1<<31-1 {
		return errors.New("a number must be at least 1")
	}
	return nil
}

// Check implements checker.
func (p Page) Check() error {
	if p < 0 || p > limit.Page {
		return fmt.Errorf("a page must be 1 to %d", limit.Page)
	}
	return nil
}

// Check implements checker.
func (p PerPage) Check() error {
	if p < 0 || p > limit.PerPage {
		return fmt.Errorf("perPage must be 1 to %d", limit.PerPage)
	}
	return nil
}

// Check implements checker.
func (b Bytes) Check() error {
	if b < 0 || b > limit.MaxContent {
		return fmt.Errorf("maxBytes must be at most %d", limit.MaxContent)
	}
	return nil
}

// Check implements checker.
func (l LineNo) Check() error {
	if l < 0 {
		return errors.New("a line number must be at least 1")
	}
	return nil
}

// printable refuses control characters, including line ends, and invalid UTF-8.
func printable(s string) error {
	if !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) {
		return errors.New("control characters are not allowed")
	}
	return nil
}
