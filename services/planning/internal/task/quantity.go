package task

import (
	"strings"

	"github.com/busbar-mcp/busbar/services/planning/internal/words"
)

// Limit is a quantity of a demand.
type Limit struct {
	// Op is "≤", "≥", "≈" or "=".
	Op string
	// Text is number and unit as written. Metric, if not empty, is the measured
	// value, such as "p99".
	Text, Metric string
	// Kind of the unit: instant, time, size, rate, count, percent, money, or "".
	Kind string
	// From and To are the tokens.
	from, to int
}

// String returns the limit in language-independent signs.
func (l Limit) String() string {
	s := l.Text
	if l.Op != "=" {
		s = l.Op + " " + s
	}
	if l.Metric != "" {
		s = l.Metric + " " + s
	}
	return s
}

// near is how many tokens before its number a comparison may stand.
const near = 3

// limits finds the numbers that have a unit or a comparison.
func limits(text string, tokens []words.Token, hits []words.Hit) []Limit {
	at := map[int]map[string]words.Hit{}
	ending := map[int]string{} // token before which a comparison ends → its name
	for _, h := range hits {
		if at[h.From] == nil {
			at[h.From] = map[string]words.Hit{}
		}
		at[h.From][h.Class] = h
		if h.Class == "cmp" {
			ending[h.To] = h.Name
		}
	}
	var out []Limit
	for i := 0; i < len(tokens) && len(out) < maxLimits; i++ {
		_, numeral := at[i]["num"]
		if tokens[i].Kind != words.Number && !numeral {
			continue
		}
		l := Limit{Op: "=", from: i, to: i + 1}
		start, end := tokens[i].Start, tokens[i].End
		// "30 000", "1 200"
		for l.to < len(tokens) && tokens[l.to].Kind == words.Number && text[end:tokens[l.to].Start] == " " && len(tokens[l.to].Text) == 3 {
			end = tokens[l.to].End
			l.to++
		}
		if u, ok := unitAt(at, l.to); ok {
			l.Kind, end, l.to = u.Name, tokens[u.To-1].End, u.To
		} else if u, ok := unitAt(at, l.to+1); ok && tokens[i].Kind == words.Number && l.to < len(tokens) && tokens[l.to].Kind == words.Word {
			l.Kind, end, l.to = u.Name, tokens[u.To-1].End, u.To // "80 vegan guests"
		}
		if rest := strings.TrimLeft(text[end:], " "); strings.HasPrefix(rest, "%") {
			l.Kind, end = "percent", end+strings.IndexByte(text[end:], '%')+1
		}
		for _, sign := range []string{"€", "$", "£", "¥", "￥"} {
			if strings.HasSuffix(text[:start], sign) {
				l.Kind, start = "money", start-len(sign)
			} else if rest := strings.TrimLeft(text[end:], " "); strings.HasPrefix(rest, sign) {
				l.Kind, end = "money", len(text)-len(rest)+len(sign)
			}
		}
		l.Op = comparison(text, tokens, at, ending, l, start)
		if l.Op == "=" && (numeral || l.Kind == "") || numeral && l.Kind == "" {
			continue
		}
		l.Text = text[start:end]
		l.Metric = metric(tokens, i)
		out = append(out, l)
		i = l.to - 1
	}
	return out
}

func unitAt(at map[int]map[string]words.Hit, i int) (words.Hit, bool) {
	h, ok := at[i]["unit"]
	return h, ok
}

// comparison finds the words or signs of comparison before a number, or directly after it.
func comparison(text string, tokens []words.Token, at map[int]map[string]words.Hit, ending map[int]string, l Limit, start int) string {
	before := strings.TrimRight(text[:start], " ")
	for _, s := range comparisons {
		if strings.HasSuffix(before, s.sign) {
			return s.op
		}
	}
	reach := near
	if l.Kind == "" {
		reach = 1 // a bare number may be a name: "to Microsoft 365"
	}
	for i := l.from; i > l.from-reach && i >= 0; i-- {
		if name, ok := ending[i]; ok {
			return signs[name]
		}
	}
	if h, ok := at[l.to]["cmpafter"]; ok {
		return signs[h.Name]
	}
	return "="
}

// comparisons are signs of comparison; arrows do not count.
var comparisons = []struct{ sign, op string }{{"->", "="}, {"=>", "="}, {"<", "≤"}, {"<=", "≤"}, {"≤", "≤"}, {">", "≥"}, {">=", "≥"}, {"≥", "≥"}, {"~", "≈"}}

var signs = map[string]string{"max": "≤", "min": "≥", "about": "≈"}

// metric returns a percentile named before the number.
func metric(tokens []words.Token, i int) string {
	for j := max(0, i-6); j < i; j++ {
		t := tokens[j].Text
		if len(t) >= 3 && t[0] == 'p' && strings.Trim(t[1:], "0123456789") == "" {
			return t
		}
	}
	return ""
}

// due finds a date: "1 March", "2026-03-01", "3月1日", "Friday".
func due(text string, tokens []words.Token, hits []words.Hit) string {
	for i, t := range tokens {
		if t.Kind != words.Number {
			continue
		}
		if isISODate(t.Text) {
			return text[t.Start:t.End]
		}
		// 3月1日
		if i+1 < len(tokens) && tokens[i+1].Text == "月" {
			end := tokens[i+1].End
			if i+3 < len(tokens) && tokens[i+2].Kind == words.Number && (tokens[i+3].Text == "日" || tokens[i+3].Text == "号") {
				end = tokens[i+3].End
			}
			return text[t.Start:end]
		}
	}
	until := map[int]bool{}
	for _, h := range hits {
		if h.Class == "mark" && (h.Name == "by" || h.Name == "before") || h.Class == "cmp" && h.Name == "max" {
			until[h.To] = true
		}
	}
	for _, h := range hits {
		if h.Class != "date" {
			continue
		}
		from, to := h.From, h.To
		if h.Name == "day" && !until[from] && !(to < len(tokens) && tokens[to].Text == "前") {
			continue // "since Tuesday"
		}
		if h.Name == "month" && !(from > 0 && tokens[from-1].Kind == words.Number) && !(to < len(tokens) && tokens[to].Kind == words.Number) {
			continue
		}
		if from > 0 && tokens[from-1].Kind == words.Number {
			from--
		} else if to < len(tokens) && tokens[to].Kind == words.Number {
			to++
		}
		if to < len(tokens) && tokens[to].Kind == words.Number && len(tokens[to].Text) == 4 {
			to++
		}
		return text[tokens[from].Start:tokens[to-1].End]
	}
	return ""
}

func isISODate(s string) bool {
	return len(s) == 10 && (s[4] == '-' && s[7] == '-' || s[2] == '.' && s[5] == '.')
}
