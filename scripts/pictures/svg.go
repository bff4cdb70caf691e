package main

import (
	"fmt"
	"html"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

const prompt = "$ "

// Sizes in pixels. Each run of text is stretched to its columns, whatever font a reader has.
const (
	charWidth  = 8.4
	lineHeight = 19.0
	fontSize   = 14.0
	margin     = 16.0
	titleBar   = 28.0
)

// theme are the colours of a picture.
type theme struct{ back, bar, text, dim, prompt, red, green, yellow string }

// themes are by the suffix of the file's name, as D2's are.
var themes = map[string]theme{
	"":      {"#ffffff", "#e6e8ee", "#1f2430", "#6b7280", "#0b5cad", "#b42318", "#1a7f37", "#9a6700"},
	"-dark": {"#161b22", "#2a313c", "#e6edf3", "#9aa4b2", "#79b8ff", "#ff7b72", "#56d364", "#e3b341"},
}

// span is text of one style in a line; at is its first column.
type span struct {
	at          int
	text, style string
}

var (
	sgr     = regexp.MustCompile(`\x1b\[([0-9;]*)m`)
	control = regexp.MustCompile(`\x1b\[[0-9;?]*[A-Za-ln-z]|\x1b[=>]`)
)

// parse splits what a terminal was sent into lines of spans. It knows the styles that busbar uses.
func parse(text string) (lines [][]span) {
	style := ""
	for line := range strings.SplitSeq(strings.TrimRight(control.ReplaceAllString(text, ""), "\n"), "\n") {
		var spans []span
		at := 0
		add := func(text, style string) {
			if text != "" {
				spans = append(spans, span{at, text, style})
				at += utf8.RuneCountInString(text)
			}
		}
		if rest, ok := strings.CutPrefix(line, prompt); ok {
			add(prompt, "prompt")
			add(rest, "bold")
			lines = append(lines, spans)
			continue
		}
		for line != "" {
			i := sgr.FindStringSubmatchIndex(line)
			if i == nil {
				add(line, style)
				break
			}
			add(line[:i[0]], style)
			style = styled(style, line[i[2]:i[3]])
			line = line[i[1]:]
		}
		lines = append(lines, fold(spans)...)
	}
	return lines
}

// fold breaks a line that is wider than the terminal, as a terminal does.
func fold(spans []span) (lines [][]span) {
	lines = append(lines, nil)
	for _, s := range spans {
		for text := []rune(s.text); len(text) > 0; {
			row := s.at / columns
			for len(lines) <= row {
				lines = append(lines, nil)
			}
			n := min(len(text), columns-s.at%columns)
			lines[row] = append(lines[row], span{s.at % columns, string(text[:n]), s.style})
			text, s.at = text[n:], s.at+n
		}
	}
	return lines
}

// styled is the style after a sequence of select graphic rendition.
func styled(style, codes string) string {
	for code := range strings.SplitSeq(codes, ";") {
		switch n, _ := strconv.Atoi(code); n {
		case 0:
			style = ""
		case 1:
			style = "bold"
		case 2, 90:
			style = "dim"
		case 31, 91:
			style = "red"
		case 32, 92:
			style = "green"
		case 33, 93:
			style = "yellow"
		}
	}
	return style
}

var (
	instant  = regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	clock    = regexp.MustCompile(`\b\d\d:\d\d:\d\d\b`)
	duration = regexp.MustCompile(`\b\d+(\.\d+)?(ms|µs)( *)`)
	age      = regexp.MustCompile(`\b(ready +)\d+s\b`) // of an instance
	identity = regexp.MustCompile(`\b[A-Z2-7]{8,26}\b`)
)

// normalize puts values that are the same in each run in place of times, durations and ids. It
// keeps their widths, so columns stay aligned.
func normalize(lines [][]span) [][]span {
	times, ids := 0, map[string]string{}
	for _, line := range lines {
		for i, s := range line {
			text := instant.ReplaceAllString(s.text, "2026-01-01T12:00:00Z")
			text = clock.ReplaceAllStringFunc(text, func(string) string {
				times++
				return fmt.Sprintf("12:00:%02d", times%60)
			})
			text = duration.ReplaceAllStringFunc(text, func(s string) string {
				return fmt.Sprintf("%-*s", utf8.RuneCountInString(s), "4ms")
			})
			text = age.ReplaceAllString(text, "${1}4s")
			line[i].text = identity.ReplaceAllStringFunc(text, func(id string) string {
				if !strings.ContainsAny(id, "234567") && len(id) < 12 {
					return id // a word in capitals
				}
				if ids[id] == "" {
					ids[id] = fmt.Sprintf("%s%02d", strings.Repeat("ABCDEFGH", 4)[:len(id)-2], 22+len(ids))
				}
				return ids[id]
			})
		}
	}
	return lines
}

// render draws lines as a window with a title bar.
func render(lines [][]span, t theme) string {
	width := 2*margin + columns*charWidth
	height := titleBar + 2*margin + float64(len(lines))*lineHeight
	var b strings.Builder
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\">\n", width, height, width, height)
	fmt.Fprintf(&b, "<style>text{font:%.0fpx ui-monospace,SFMono-Regular,Menlo,Consolas,\"DejaVu Sans Mono\",monospace;fill:%s;white-space:pre}"+
		".bold{font-weight:700}.dim{fill:%s}.prompt{fill:%s}.red{fill:%s}.green{fill:%s}.yellow{fill:%s}</style>\n",
		fontSize, t.text, t.dim, t.prompt, t.red, t.green, t.yellow)
	fmt.Fprintf(&b, "<rect x=\"0.5\" y=\"0.5\" width=\"%.0f\" height=\"%.0f\" rx=\"8\" fill=\"%s\" stroke=\"%s\"/>\n", width-1, height-1, t.back, t.bar)
	fmt.Fprintf(&b, "<path d=\"M0.5 %.0fV8.5a8 8 0 0 1 8-8H%.1fa8 8 0 0 1 8 8V%.0fz\" fill=\"%s\"/>\n", titleBar, width-8.5, titleBar, t.bar)
	for i := range 3 {
		fmt.Fprintf(&b, "<circle cx=\"%d\" cy=\"14\" r=\"5\" fill=\"%s\"/>\n", 18+18*i, t.dim)
	}
	for i, spans := range lines {
		y := titleBar + margin + float64(i)*lineHeight + fontSize
		for _, s := range spans {
			text := strings.TrimRight(s.text, " ")
			trimmed := strings.TrimLeft(text, " ")
			if trimmed == "" {
				continue
			}
			x := margin + float64(s.at+len(text)-len(trimmed))*charWidth
			class := ""
			if s.style != "" {
				class = ` class="` + s.style + `"`
			}
			fmt.Fprintf(&b, "<text x=\"%.1f\" y=\"%.0f\" textLength=\"%.1f\"%s xml:space=\"preserve\">%s</text>\n",
				x, y, float64(utf8.RuneCountInString(trimmed))*charWidth, class, html.EscapeString(trimmed))
		}
	}
	b.WriteString("</svg>\n")
	return b.String()
}
