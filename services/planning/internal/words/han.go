package words

import (
	_ "embed"
	"strings"
	"sync"
)

//go:embed data/han.txt
var hanFile string

type hanTables struct {
	simplified, traditional map[rune]rune
}

var han = sync.OnceValue(func() hanTables {
	t := hanTables{map[rune]rune{}, map[rune]rune{}}
	for line := range strings.Lines(hanFile) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		for pair := range strings.FieldsSeq(line) {
			r := []rune(pair)
			t.traditional[r[0]] = r[1]
			t.simplified[r[1]] = r[0]
		}
	}
	return t
})

// Simplified returns the simplified form of a traditional character if the lists use it, otherwise r
// itself.
func Simplified(r rune) rune {
	if s, ok := han().simplified[r]; ok {
		return s
	}
	return r
}

// Traditional rewrites our own simplified wording in traditional characters.
func Traditional(text string) string {
	return strings.Map(func(r rune) rune {
		if t, ok := han().traditional[r]; ok {
			return t
		}
		return r
	}, text)
}

// IsTraditional reports whether Chinese text is written in traditional
// characters.
func IsTraditional(text string) bool {
	n := 0
	for _, r := range text {
		if _, ok := han().simplified[r]; ok {
			n++
		} else if _, ok := han().traditional[r]; ok {
			n--
		}
	}
	return n > 0
}
