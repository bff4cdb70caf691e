package file

import (
	"regexp"
	"regexp/syntax"
	"testing"
	"unicode/utf8"
)

// A literal is found where the expression of the same text is.
func FuzzLiteral(f *testing.F) {
	f.Add("one needle two", "NEEDLE", true)
	f.Add("Straße Kelvin ſtop", "kELVIN S", true)
	f.Add("ΑΒΓ ς σ Σ", "σ σ", true)
	f.Add("a.b\r", "A.B", false)
	f.Add("\xff\xc3a", "A", true)
	f.Fuzz(func(t *testing.T, text, query string, fold bool) {
		if !utf8.ValidString(query) || !utf8.ValidString(text) || query == "" {
			return
		}
		expression := regexp.QuoteMeta(query)
		if fold {
			expression = "(?i:" + expression + ")"
		}
		want := -1
		if at := regexp.MustCompile(expression).FindStringIndex(text); at != nil {
			want = at[0]
		}
		l := newLiteral(query, fold)
		got := l.index(l.prepare([]byte(text), nil))
		if got >= 0 && fold {
			got = unfolded(text, got)
		}
		if got != want {
			t.Errorf("%q in %q: %d, want %d", query, text, got, want)
		}
	})
}

// Each match of an expression has the text that is required of it.
func FuzzRequires(f *testing.F) {
	f.Add("(?i:fo+ba{2}r|x)", "foobaar")
	f.Add("(?i)abc 123 (de)+f?", "ABC 123 DEDE")
	f.Add("a(?:bcd){0,2}^e$", "ae")
	f.Fuzz(func(t *testing.T, expression, text string) {
		parsed, err := syntax.Parse(expression, syntax.Perl)
		if err != nil || !utf8.ValidString(text) || len(expression) > 100 || len(text) > 1000 {
			return
		}
		pattern, err := regexp.Compile(expression)
		if err != nil {
			return
		}
		if l := requires(parsed); pattern.MatchString(text) && l.index(l.prepare([]byte(text), nil)) < 0 {
			t.Errorf("%s matches %q, which does not contain %q", expression, text, l.text)
		}
	})
}
