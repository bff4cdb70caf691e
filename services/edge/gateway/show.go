package gateway

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/fault"
)

const (
	// maxShown bounds the arguments that a person is shown, in bytes.
	maxShown = 8 << 10
	// maxShownMember is the largest member that is shown, in bytes, if the arguments are larger
	// than maxShown.
	maxShownMember = 1 << 10
)

// Show describes a call to the person that is to approve it: the tool, with its title, and all
// arguments. Characters that steer or disguise text are escaped. If the arguments are larger than
// 8 KiB, their large members are shown by name, size and digest, and the text says that they are
// not shown in full.
func Show(name, title string, arguments []byte) string {
	tool := visible(fault.Clip(name))
	if title != "" && title != name {
		tool = visible(fault.Clip(title)) + " (tool " + tool + ")"
	}
	return "Let " + tool + " run with these arguments?\n" + ShowArguments(arguments)
}

// ShowArguments is the part of Show for the arguments.
func ShowArguments(arguments []byte) string {
	if len(bytes.TrimSpace(arguments)) == 0 {
		return "{}"
	}
	if text, ok := indented(arguments); ok && len(text) <= maxShown {
		return text
	}
	return outline(arguments)
}

// outline shows the small members of large arguments, and of the others name, size and digest.
func outline(arguments []byte) string {
	var b strings.Builder
	hidden, members := 0, 0
	d := jsontext.NewDecoder(bytes.NewReader(arguments))
	if _, err := d.ReadToken(); err == nil {
		for d.PeekKind() == '"' {
			name, err := d.ReadToken()
			if err != nil {
				break
			}
			label := visibleJSON(string(quote(fault.Clip(name.String()))))
			value, err := d.ReadValue()
			if err != nil {
				break
			}
			members++
			line := label + ": " + sized(value)
			text, ok := indented(value)
			small := ok && len(text) <= maxShownMember && b.Len()+len(text) <= maxShown
			if small {
				line = label + ": " + strings.ReplaceAll(text, "\n", "\n  ")
			}
			if !small {
				hidden++
			}
			if small || b.Len()+len(line) <= 2*maxShown {
				b.WriteString("  " + line + "\n")
			}
		}
	}
	return fmt.Sprintf("{\n%s}\nNOT EVERYTHING IS SHOWN: %d of %d members are left out. All arguments are %d bytes, SHA-256 %x.",
		b.String(), hidden, members, len(arguments), sha256.Sum256(arguments))
}

func sized(value jsontext.Value) string {
	return fmt.Sprintf("(not shown: %d bytes, SHA-256 %x)", len(value), sha256.Sum256(value))
}

// indented is JSON on lines, with escapes only for characters that would be invisible or
// misleading.
func indented(value []byte) (string, bool) {
	v := jsontext.Value(bytes.Clone(value))
	if err := v.Format(jsontext.PreserveRawStrings(false), jsontext.WithIndent("  ")); err != nil {
		return "", false
	}
	return visibleJSON(string(v)), true
}

// visible makes a text safe to read: characters that disguise it are written as escapes.
func visible(s string) string {
	var b strings.Builder
	for _, r := range s {
		appendVisible(&b, r)
	}
	return b.String()
}

// visibleJSON is visible for JSON, whose own line ends stay.
func visibleJSON(s string) string {
	if strings.IndexFunc(s, disguised) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if r == '\n' {
			b.WriteRune(r)
			continue
		}
		appendVisible(&b, r)
	}
	return b.String()
}

func appendVisible(b *strings.Builder, r rune) {
	switch {
	case !disguised(r):
		b.WriteRune(r)
	case r > 0xffff:
		fmt.Fprintf(b, `\U%08x`, r)
	default:
		fmt.Fprintf(b, `\u%04x`, r)
	}
}

// disguised reports whether a character steers the display or cannot be seen: control characters,
// characters that change the direction of writing, those without width, and unusual spaces.
func disguised(r rune) bool {
	if r < 0x80 {
		return unicode.IsControl(r)
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Zs, unicode.Co) ||
		r == '\u3164' || r == '\uffa0' || r == '\u115f' || r == '\u1160' || // fillers
		r >= 0xfe00 && r <= 0xfe0f || r >= 0xe0100 && r <= 0xe01ef // variation selectors
}
