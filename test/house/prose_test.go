package house

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// A pattern is a way to write that readers have to read twice. CONTRIBUTING.md has the rules
// of style; a machine finds only these.
type pattern struct {
	name   string
	found  *regexp.Regexp
	except *regexp.Regexp // a hit that contains this is right
}

var patterns = []pattern{
	{"a clause that starts with Who, What or Whose", regexp.MustCompile(`^(Who|What|Whose) [a-z]+\b`), regexp.MustCompile(`^What to `)},
	{"Of …, those", regexp.MustCompile(`^Of [^,.]{1,60}, (that|those|the|one|it|they)\b`), nil},
	{"is none", regexp.MustCompile(`\b(is|are|was|were) none\b`), nil},
	{"is no …", regexp.MustCompile(`\b(is|are|was|were) no [a-z]+`), regexp.MustCompile(`\bno (longer|more|less|different|better|worse|room|way|need)\b|\b[Tt]here (is|are|was|were) no\b`)},
	{"has … done", regexp.MustCompile(`\b(has|have|had) (an?|the|its|their|it|them|each|every|all) ([a-z]+ ){0,3}(done|called|kept|served|sent|made|run|taken|told|asked)\b`), nil},
	{"that of", regexp.MustCompile(`\b(that|those) of\b`), nil},
	{"else, for otherwise", regexp.MustCompile(`(\S+ )?\b[Ee]lse\b`), regexp.MustCompile(`(?i)\b(any|some|no|every)(thing|one|body|where)('s)? else|\b(no one|what|who|where|how|whoever|nobody|all|little|much) else|^or else\b|else's`)},
	{"dear, for expensive", regexp.MustCompile(`\b[Dd]ear(er|est)?\b`), nil},
	{"anew", regexp.MustCompile(`\b[Aa]new\b`), nil},
	{"beside each other", regexp.MustCompile(`\bbeside (each other|one another)\b`), nil},
	{"to who, for who", regexp.MustCompile(`\b(to|for|of|from|by|with|as) who\b`), nil},
	{"as it does", regexp.MustCompile(`\bas (it|they) (does|do)\b`), nil},
	{"may be let", regexp.MustCompile(`\b(may|can|must) be let\b`), nil},
}

var (
	inlineCode = regexp.MustCompile("`[^`]*`|\\{\\{.*?\\}\\}|https?://\\S+|\"[^\"]*\"|“[^”]*”")
	sentence   = regexp.MustCompile(`[^.:;?!]+(?:[.:;?!]+(?:\s|$)|$|[.:;?!])`)
	lead       = regexp.MustCompile(`^[\s>|*#\-\d.()]+`)
)

// awkward returns what of a text has to be written in another way.
func awkward(text string) []string {
	var all []string
	text = inlineCode.ReplaceAllString(strings.Join(strings.Fields(text), " "), "x")
	for _, s := range sentence.FindAllString(text, -1) {
		s = strings.TrimSpace(lead.ReplaceAllString(s, ""))
		if strings.HasSuffix(s, "?") {
			continue
		}
		for _, p := range patterns {
			for _, hit := range p.found.FindAllString(s, -1) {
				around := s[max(0, strings.Index(s, hit)-10):min(len(s), strings.Index(s, hit)+len(hit)+10)]
				if p.except == nil || !p.except.MatchString(around) {
					all = append(all, fmt.Sprintf("%s: %.80s", p.name, s))
				}
			}
		}
	}
	return all
}

func TestAwkward(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"Who agrees has the result.":                               1,
		"What is not of the schema is refused.":                    1,
		"What to do about it.":                                     0,
		"Text: {{#if a}}…{{else}}…{{/if}}":                         0,
		"Who is asked?":                                            0,
		"It fails. Whose it is has the name.":                      1,
		"Of anonymous callers, those at one address are one.":      1,
		"%q is no name of a header":                                1,
		"It is no longer there; there is no name.":                 0,
		"There is none.":                                           1,
		"Demand is that of the tool.":                              1,
		"Someone else, anything else, or something else.":          0,
		"The form goes, else it is refused.":                       1,
		"The code says `else` and \"is none\".":                    0,
		"It is dear to parse, and parsed anew.":                    2,
		"for who shows credentials":                                1,
		"it carries as many as it does":                            1,
		"has an instance called again":                             1,
		"Both run\nbeside\neach other.":                            1,
		"A caller may not use this. Wait until it has a free one.": 0,
	} {
		if got := awkward(text); len(got) != want {
			t.Errorf("%q: %q, want %d", text, got, want)
		}
	}
}

// Documents, comments and what programs say are in plain words.
func TestPlainWords(t *testing.T) {
	t.Parallel()
	add := func(path string, line int, text string) {
		for _, what := range awkward(text) {
			t.Errorf("%s:%d: %s", path, line, what)
		}
	}
	for path, text := range documents(t, root(t)) {
		line := 1
		for paragraph := range strings.SplitSeq(code.ReplaceAllStringFunc(text, func(s string) string { return strings.Repeat("\n", strings.Count(s, "\n")) }), "\n\n") {
			for item := range strings.SplitSeq(strings.ReplaceAll(strings.ReplaceAll(paragraph, "\n- ", "\n\x00"), "\n|", "\n\x00"), "\x00") {
				for cell := range strings.SplitSeq(item, " | ") {
					if !strings.HasPrefix(cell, "#") { // a heading may start with What
						add(path, line, cell)
					}
				}
				line += strings.Count(item, "\n")
			}
			line += 2
		}
	}
	for _, s := range sources(t) {
		if s.generated {
			continue
		}
		for _, c := range s.comments {
			add(s.path, c.line, c.text)
		}
		for _, l := range s.literals {
			if !s.test && strings.Count(l.text, " ") >= 2 && !strings.ContainsAny(l.text, "\\{<") {
				add(s.path, l.line, l.text)
			}
		}
	}
}
