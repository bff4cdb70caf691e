package client

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/busbar-mcp/busbar/services/busbar/internal/terminal"
	"github.com/go-json-experiment/json/jsontext"
)

// resultText is a result for people: content in order, then structured content
// unless a text already says the same. On a terminal JSON is laid out, and
// what would steer the terminal is escaped; elsewhere text goes out unchanged
// and JSON on one line.
func resultText(res *Result, onTerminal bool) string {
	text, data := func(s string) string { return s }, oneLine
	if onTerminal {
		text = terminal.SafeText
		data = func(v jsontext.Value) string { return terminal.SafeJSON(indented(v)) }
	}
	var b strings.Builder
	line := func(s string) {
		b.WriteString(s)
		if !strings.HasSuffix(s, "\n") {
			b.WriteByte('\n')
		}
	}
	twin := twinOf(res)
	for i, c := range res.Content {
		switch {
		case i == twin && res.Structured.Kind() != '"':
			line(data(res.Structured))
		case c.Type == "text":
			line(text(c.Text))
		case c.Type == "resource" && c.Resource != nil && c.Resource.Blob == "":
			line(note("resource %s", mimed(c.Resource.URI, c.Resource.MIMEType)))
			line(text(c.Resource.Text))
		default:
			line(contentNote(c))
		}
	}
	if len(res.Structured) > 0 && twin < 0 {
		line(data(res.Structured))
	}
	return b.String()
}

// twinOf returns the index of the only text block if it says the same as the
// structured content, or -1.
func twinOf(res *Result) int {
	twin, texts := -1, 0
	for i, c := range res.Content {
		if c.Type != "text" {
			continue
		}
		if texts++; texts > 1 {
			return -1
		}
		twin = i
	}
	if texts == 0 || len(res.Structured) == 0 {
		return -1
	}
	said := res.Content[twin].Text
	if sameJSON(jsontext.Value(said), res.Structured) ||
		res.Structured.Kind() == '"' && plainScalar(res.Structured) == said {
		return twin
	}
	return -1
}

// contentNote is a line in place of what cannot be shown.
func contentNote(c Content) string {
	switch c.Type {
	case "image", "audio":
		return note("%s %s, %s", c.Type, cmp.Or(c.MIMEType, "of unknown type"), byteSize(base64Size(c.Data)))
	case "resource_link":
		s := mimed(c.URI, c.MIMEType)
		if name := cmp.Or(c.Title, c.Name); name != "" {
			s = name + " " + s
		}
		if c.Description != "" {
			s += " - " + c.Description
		}
		return note("link %s", s)
	case "resource":
		if c.Resource != nil {
			return note("resource %s, %s", mimed(c.Resource.URI, c.Resource.MIMEType), byteSize(base64Size(c.Resource.Blob)))
		}
	}
	return note("content of type %q; --json shows it", c.Type)
}

func note(format string, args ...any) string {
	return "[" + terminal.SafeLine(fmt.Sprintf(format, args...)) + "]"
}

func mimed(uri, mimeType string) string {
	if mimeType == "" {
		return uri
	}
	return uri + " (" + mimeType + ")"
}

// byteSize is a size for people.
func byteSize(n int) string {
	switch {
	case n == 1:
		return "1 byte"
	case n < 1<<10:
		return fmt.Sprintf("%d bytes", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

// questions is what the server asked for instead of answering.
func questions(requests []InputRequest) string {
	var b strings.Builder
	b.WriteString("the tool asks for input first, which the command line cannot give:\n")
	for _, r := range requests {
		what := cmp.Or(r.Message, "("+cmp.Or(r.Method, "a request without a method")+")")
		fmt.Fprintf(&b, "  %s: %s\n", terminal.SafeLine(r.Key), terminal.SafeLine(what))
		if r.URL != "" {
			fmt.Fprintf(&b, "    %s\n", terminal.SafeLine(r.URL))
		}
	}
	b.WriteString("call it from an MCP client that can, or with arguments that leave nothing to ask\n")
	return b.String()
}
