package main

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

// TestFrame draws what a terminal was sent. The picture has to parse, and to have all of its text.
func TestFrame(t *testing.T) {
	t.Parallel()
	sent := "$ busbar audit ls <x>\n" +
		"\x1b[1mTIME\x1b[0m      CALL\n\x1b[2m08:16:22\x1b[0m  \x1b[31mforbidden\x1b[0m  yes  3.63ms  \x1b[2mM7YRDYIB\x1b[0m\n" +
		strings.Repeat("a", columns) + "tail\n"
	for suffix, theme := range themes {
		picture := render(normalize(parse(sent)), theme)
		decoder, text := xml.NewDecoder(strings.NewReader(picture)), ""
		for {
			token, err := decoder.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%q: %v\n%s", suffix, err, picture)
			}
			if data, ok := token.(xml.CharData); ok {
				text += string(data)
			}
		}
		for _, want := range []string{"busbar audit ls <x>", "12:00:01", "forbidden", "yes  4ms", "ABCDEF22", "tail"} {
			if !strings.Contains(text, want) {
				t.Errorf("%q lacks %q:\n%s", suffix, want, text)
			}
		}
		if strings.Contains(picture, "\x1b") || strings.Contains(text, "3.63") {
			t.Errorf("%q has what differs in each run:\n%s", suffix, text)
		}
	}
}

func TestNormalize(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"at 2026-11-28T08:17:58.611862Z":      "at 2026-01-01T12:00:00Z",
		"08:16:22 and 08:16:23":               "12:00:01 and 12:00:02",
		"5.96ms  x":                           "4ms     x",
		"650µs.":                              "4ms  .",
		"2MTDBDR4CS22 UJZNTFHI7VKU":           "ABCDEFGHAB22 ABCDEFGHAB23",
		"M7YRDYIB M7YRDYIB INSTANCES 12":      "ABCDEF22 ABCDEF22 INSTANCES 12",
		"words: 2, \"sentences\": 1, 0.1.0-x": "words: 2, \"sentences\": 1, 0.1.0-x",
	} {
		if got := normalize([][]span{{{text: text}}})[0][0].text; got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}
