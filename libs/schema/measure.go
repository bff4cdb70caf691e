package schema

import (
	"errors"
	"fmt"
	"regexp/syntax"
)

// Bounds of what a decoded schema has.
const (
	maxDepth = 64
	maxParts = 5000
	// maxPaths bounds the pointers to all parts together: the compiler keeps them, and long
	// names that are nested make each one long.
	maxPaths = 2 << 20
	// maxPattern bounds a regular expression by its bytes, and maxPatterns all of them by
	// what they become: a{1000} is short to write.
	maxPattern  = 16 << 10
	maxPatterns = 250_000
)

// measured is what a decoded schema has.
type measured struct {
	parts, paths, patterns int
	// refers says that parts of it may be used more than once.
	refers bool
}

// measure fails when a schema is more than what may be compiled.
func measure(doc any) (m measured, err error) {
	if err := m.add(doc, 1, 0); err != nil {
		return m, err
	}
	if m.parts > maxParts {
		return m, fmt.Errorf("schema has %d parts; the limit is %d", m.parts, maxParts)
	}
	if m.paths > maxPaths {
		return m, fmt.Errorf("the paths of all parts of the schema have %d bytes; the limit is %d: use shorter names, or $defs", m.paths, maxPaths)
	}
	return m, nil
}

// add counts a value at a depth, whose path is so long.
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

// pattern counts a regular expression. One that is wrong is for the compiler to refuse.
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

// instructions is about how many a regular expression becomes.
func instructions(re *syntax.Regexp) int {
	n := 1 + len(re.Rune)
	if re.Op == syntax.OpCharClass {
		n = 1 + len(re.Rune)/8 // one, with a table
	}
	for _, sub := range re.Sub {
		n += instructions(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Max, re.Min+1)
	}
	return min(n, maxPatterns+1)
}
