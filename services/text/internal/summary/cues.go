package summary

import (
	_ "embed"
	"strings"
	"sync"

	"github.com/busbar-mcp/busbar/services/text/internal/segment"
)

//go:embed data/cues.txt
var cueFile string

// cues are the lists of data/cues.txt.
type cues struct{ aside, change, leans []string }

var knownCues = sync.OnceValue(func() cues {
	lists := make(map[string][]string)
	for line := range strings.Lines(cueFile) {
		if name, words, ok := strings.Cut(line, ": "); ok && line[0] != '#' {
			for word := range strings.FieldsSeq(words) {
				lists[name] = append(lists[name], strings.ReplaceAll(word, "_", " "))
			}
		}
	}
	return cues{lists["aside"], lists["change"], lists["leans"]}
})

// Factors of a sentence's score.
const (
	courtesy = 0.15 // a sentence that says thanks
	decisive = 1.4  // a sentence that announces a change
	leaning  = 0.8  // a sentence that begins with a reference to an earlier one
)

// changes reports whether a sentence announces a decision or the end of something.
func changes(sentence string) bool { return says(folded(sentence), knownCues().change) }

// folded returns the beginning of a sentence, in small letters between spaces.
func folded(sentence string) string {
	const most = 600 // bytes
	return " " + strings.ToLower(sentence[:min(len(sentence), most)]) + " "
}

// cue returns the factor that the wording of a sentence gives its score.
func cue(sentence string) float64 {
	folded := folded(sentence)
	k := knownCues()
	factor := 1.0
	if says(folded, k.aside) {
		factor *= courtesy
	}
	if says(folded, k.change) {
		factor *= decisive
	}
	for w := range segment.Words(folded) {
		for _, l := range k.leans {
			if w.Text == l || segment.IsHan(l) && strings.HasPrefix(folded[w.Start:], l) {
				return factor * leaning
			}
		}
		break
	}
	return factor
}

// says reports whether folded contains one of words. A "*" at the end of a word stands for any ending;
// Chinese words need no spaces around them.
func says(folded string, words []string) bool {
	for _, w := range words {
		stem, open := strings.CutSuffix(w, "*")
		for rest, at := folded, 0; ; {
			i := strings.Index(rest, stem)
			if i < 0 {
				break
			}
			at += i
			if segment.IsHan(stem) || !letter(folded, at-1) && (open || !letter(folded, at+len(stem))) {
				return true
			}
			at += len(stem)
			rest = folded[at:]
		}
	}
	return false
}

// letter reports whether the byte at i is part of a word.
func letter(s string, i int) bool {
	return i >= 0 && i < len(s) && (s[i] >= 0x80 || s[i] >= 'a' && s[i] <= 'z' || s[i] >= '0' && s[i] <= '9')
}
