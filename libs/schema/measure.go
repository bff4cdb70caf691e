package schema

import (
	"errors"
	"fmt"
	"regexp/syntax"
)

// Limits of a decoded schema.
const (
	//limit:schema levels of a schema
	maxDepth = 64
	//limit:schema parts of a schema
	maxParts = 5000
	// maxPaths bounds the total size of the pointers to all parts: the compiler keeps them, and
	// nested long names make each one long.
	maxPaths = 2 << 20
	// maxPattern bounds a regular expression in bytes, and maxPatterns all of them by their
	// compiled size: a{1000} is short to write.
	//limit:schema a regular expression in a schema
	maxPattern = 16 << 10
	//limit:schema instructions of all regular expressions of a schema (`a{1000}` is 1,000)
	maxPatterns = 250_000
)

// measured is the size of a decoded schema.
type measured struct {
	parts, paths, patterns int
	// refers: parts of it may be used more than once.
	refers bool
}

// measure fails if a schema is too large to be compiled.
func measure(doc any) (m measured, err error) {
	if err := m.add(doc, 1, 0); err != nil {
		return m, err
	}
	if m.parts > maxParts {
		return m, fmt.Errorf("schema has %d parts; the limit is %d", m.parts, maxParts)
	}
	if m.paths > maxPaths {
		return m, fmt.Errorf("the paths of all parts of the schema have %d bytes; the limit is %d; use shorter names, or $defs", m.paths, maxPaths)
	}
	return m, nil
}

// add counts a value at a depth and with the given length of its path.
func (m *measured) add(v any, depth, path int) error {
	if depth > maxDepth {
		return fmt.Errorf("schema is nested deeper than %d levels", maxDepth)
	}
	m.parts++
	m.paths += path
	switch v := v.(type) {
	case map[string]any:
		for name, child := range v {
			if err := m.keyword(name, child); err != nil {
				return err
			}
			if err := m.add(child, depth+1, path+1+len(name)); err != nil {
				return err
			}
		}
	case []any:
		for _, child := range v {
			if err := m.add(child, depth+1, path+4); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *measured) keyword(name string, value any) error {
	switch name {
	case "$ref", "$dynamicRef", "$recursiveRef":
		m.refers = true
	case "pattern":
		if text, ok := value.(string); ok {
			return m.pattern(text)
		}
	case "patternProperties":
		named, _ := value.(map[string]any)
		for text := range named {
			if err := m.pattern(text); err != nil {
				return err
			}
		}
	}
	return nil
}

// pattern counts a regular expression. The compiler refuses invalid ones.
func (m *measured) pattern(text string) error {
	if len(text) > maxPattern {
		return fmt.Errorf("a pattern is %d bytes; the limit is %d", len(text), maxPattern)
	}
	re, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil
	}
	if m.patterns += instructions(re); m.patterns > maxPatterns {
		return errors.New("the patterns of the schema are too large together; use shorter ones, and fewer repetitions such as {1000}")
	}
	return nil
}

// instructions estimates the number of instructions of a compiled regular expression.
func instructions(re *syntax.Regexp) int {
	n := 1 + len(re.Rune)
	if re.Op == syntax.OpCharClass {
		n = 1 + len(re.Rune)/8 // one instruction, with a table
	}
	for _, sub := range re.Sub {
		n += instructions(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Max, re.Min+1)
	}
	return min(n, maxPatterns+1)
}
