package segment

import (
	_ "embed"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

//go:embed data/abbreviations.txt
var abbreviationFile string

// abbreviation is a word with a dot after which a sentence continues.
type abbreviation struct {
	// notAfterNumber: after a number the dot may end the sentence
	// ("в 2020 г. Потом", but "в г. Москва").
	notAfterNumber bool
	// ends: the whole ends the sentence, although its last part alone would not.
	ends bool
}

var abbreviations = sync.OnceValue(func() map[string]abbreviation {
	m := make(map[string]abbreviation)
	for line := range strings.Lines(abbreviationFile) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		short, number := strings.CutSuffix(line, " !number")
		short, ends := strings.CutSuffix(short, " !ends")
		m[short] = abbreviation{notAfterNumber: number, ends: ends}
	}
	return m
})

// tailLen is the number of bytes before the end of a sentence that are searched for abbreviations, which
// keeps splitting linear.
const tailLen = 64

// continues reports whether the sentence so far continues in rest, although UAX #29 ends it here.
func continues(sofar, rest string) bool {
	if rest == "" || strings.HasSuffix(sofar, "\n") {
		return false
	}
	if speaks(sofar, rest) {
		return true
	}
	tail := sofar
	if len(tail) > tailLen {
		tail = tail[len(tail)-tailLen:]
		for !utf8.RuneStart(tail[0]) {
			tail = tail[1:]
		}
	}
	tail = strings.TrimRightFunc(tail, unicode.IsSpace)
	if !strings.HasSuffix(tail, ".") {
		return false
	}
	head, last := lastField(tail)
	_, before := lastField(head)
	// A number and a dot that open a sentence are a list number: "1. Start",
	// "IV. Results".
	if number := strings.TrimSuffix(last, "."); head == "" && len(sofar) < tailLen && (isNumber(number) || isRoman(number)) {
		return true
	}
	if isOrdinal(before, last, rest) {
		return true
	}
	if isInitials(last) {
		return true
	}
	known := abbreviations()
	if a, ok := known[strings.ToLower(before+" "+last)]; ok {
		return !a.ends
	}
	next, _, _ := strings.Cut(rest[:min(len(rest), tailLen)], " ")
	if _, ok := known[strings.ToLower(last+" "+next)]; ok {
		return true // inside "z. B."
	}
	if strings.HasSuffix(last, "str.") { // "Hauptstr. 14"
		return true
	}
	a, ok := known[strings.ToLower(last)]
	return ok && !a.ends && !(a.notAfterNumber && isNumber(before) && !opensWithDate(sofar))
}

// opensWithDate reports whether the sentence so far is a preposition, a number and an abbreviation: "В
// 1998 г.", "W 2005 r." That is not a whole sentence.
func opensWithDate(sofar string) bool {
	return len(sofar) < tailLen && len(strings.Fields(sofar)) <= 3
}

// lastField splits s before its last space-separated field, and drops opening brackets and quotes from the
// field.
func lastField(s string) (head, field string) {
	s = strings.TrimRightFunc(s, unicode.IsSpace)
	i := strings.LastIndexFunc(s, unicode.IsSpace)
	if i >= 0 {
		_, n := utf8.DecodeRuneInString(s[i:])
		head, field = s[:i], s[i+n:]
	} else {
		field = s
	}
	return head, strings.TrimLeftFunc(field, func(r rune) bool {
		return unicode.In(r, unicode.Ps, unicode.Pi) || r == '"' || r == '\'' || r == '„'
	})
}

// isInitials reports whether s is capital letters each followed by a dot: "J.", "J.R.R.", "А.С.". Those
// like a country's ("U.S.") often end sentences.
func isInitials(s string) bool {
	switch s {
	case "U.S.", "U.K.", "U.N.", "E.U.", "D.C.", "A.M.", "P.M.", "И.О.", "I.":
		return false
	}
	wantLetter := true
	for _, r := range s {
		if wantLetter != unicode.IsUpper(r) || !wantLetter && r != '.' {
			return false
		}
		wantLetter = !wantLetter
	}
	return s != "" && wantLetter
}

func isNumber(s string) bool {
	for _, r := range s {
		if !unicode.IsDigit(r) && r != '.' && r != '-' && r != '–' {
			return false
		}
	}
	return s != ""
}

func isRoman(s string) bool { return s != "" && strings.Trim(s, "IVXLC") == "" }

// beforeOrdinal and germanMonths recognise German ordinals, which have a dot: "am 3. Oktober", "der 2. Stock".
var (
	beforeOrdinal = set("am der die das den dem des im vom zum zur bis ab seit beim jeder jedem dieser diesem ihr sein")
	germanMonths  = set("januar jänner februar märz april mai juni juli august september oktober november dezember quartal")
)

func set(list string) map[string]bool {
	set := make(map[string]bool)
	for word := range strings.FieldsSeq(list) {
		set[word] = true
	}
	return set
}

// isOrdinal reports whether number, followed by a dot, is an ordinal of the noun in rest.
func isOrdinal(before, number, rest string) bool {
	const digits = 2
	number = strings.TrimSuffix(number, ".")
	if len(number) > digits || strings.Trim(number, "0123456789") != "" || number == "" {
		return false
	}
	end := strings.IndexFunc(rest, func(r rune) bool { return !unicode.IsLetter(r) })
	if end < 0 {
		end = len(rest)
	}
	return germanMonths[strings.ToLower(rest[:end])] || beforeOrdinal[strings.ToLower(before)] && end > 0
}

// EndsSentence reports whether sofar, which ends in a mark such as a full stop, may be a whole sentence
// before rest: it does not end in an abbreviation, an initial or a list number.
func EndsSentence(sofar, rest string) bool {
	_, last := lastField(sofar)
	short := strings.ToLower(strings.TrimRight(last, ".!?)"))
	if strings.HasSuffix(last, ".") && (strings.Contains(short, ".") || utf8.RuneCountInString(short) < 2 || goesOn[short]) {
		return false
	}
	return !continues(sofar, rest)
}

// goesOn lists abbreviations that may end a sentence, except before a small letter.
var goesOn = set("etc itd itp usw др пр т.д т.п тд тп jr sr inc ltd co corp vs r w ca nr bzw")

// IsAbbreviation reports whether a word followed by a dot is an abbreviation.
func IsAbbreviation(word string) bool {
	word = strings.ToLower(word)
	_, ok := abbreviations()[word+"."]
	return ok || goesOn[word]
}
