package catalogue

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/edge/definition"
)

// maxInstructions bounds what all services together tell models, bytes: clients put it
// before every conversation.
//
//limit:service instructions of all services together | services without room are left out and counted
const maxInstructions = 8 << 10

// instruction is what one service tells models of what it offers.
type instruction struct{ service, text string }

// addInstructions takes what a service tells models. Where definitions have to be
// accepted, nobody has accepted this.
func (b *builder) addInstructions(service, said string) {
	if said == "" || b.pinned != nil {
		return
	}
	text, err := instructed(said)
	if err != nil {
		b.problems = append(b.problems, fmt.Sprintf("the instructions of service %s are left out: %v", service, err))
		return
	}
	if text == "" {
		return // of nothing that is seen
	}
	b.said = append(b.said, instruction{service, text})
}

// instructed is the text as models get it: only what a person sees, too, and each line
// indented, so that it cannot pass for what another service says. A block of code that it
// does not end is ended: what the next service says is no part of it.
func instructed(said string) (string, error) {
	if len(said) > service.MaxInstructions {
		return "", fmt.Errorf("they have more than %d bytes", service.MaxInstructions)
	}
	seen := strings.Map(func(r rune) rune {
		switch {
		case r == '\n':
			return r
		case unicode.IsSpace(r): // of spaces that differ a text can be made, too
			return ' '
		case definition.Seen(r):
			return r
		}
		return -1
	}, strings.ReplaceAll(said, "\r\n", "\n"))
	seen = strings.TrimSpace(seen)
	if strings.Count(seen, "\n") >= service.MaxInstructionLines {
		return "", fmt.Errorf("they have more than %d lines", service.MaxInstructionLines)
	}
	var b strings.Builder
	open := "" // the fence of the block of code that a line is in
	for line := range strings.Lines(seen) {
		if line = strings.TrimSpace(line); line != "" {
			b.WriteString("  " + line)
		}
		b.WriteByte('\n')
		open = fenced(open, line)
	}
	if open != "" {
		b.WriteString("  " + open + "\n")
	}
	return b.String(), nil
}

// fenced is the fence of the block of code that Markdown is in after a line; before it,
// that of open, or of none where that is empty.
func fenced(open, line string) string {
	fence := line[:len(line)-len(strings.TrimLeft(line, "`"))]
	if fence == "" {
		fence = line[:len(line)-len(strings.TrimLeft(line, "~"))]
	}
	info := line[len(fence):]
	switch {
	case len(fence) < 3:
		return open
	case open == "" && (fence[0] != '`' || !strings.Contains(info, "`")):
		return fence
	case open != "" && strings.HasPrefix(fence, open) && info == "":
		return ""
	}
	return open
}

// Instructions are what services tell models, by the names of the services: of those of
// which the lists show something. Empty for nothing.
func (s *Snapshot) Instructions() string { return s.instructions }

// instruct joins the instructions of the services that lists show something of, within
// the bound of all. Each is an item of a list, which Markdown ends at the next one whatever
// it left open: a comment, an element of HTML.
func (s *Snapshot) instruct(shown map[string]bool) {
	var b strings.Builder
	left := 0
	for _, one := range s.said {
		switch part := "- " + one.service + ":\n" + one.text; {
		case !shown[one.service]:
		case b.Len()+len(part) > maxInstructions:
			left++
		default:
			b.WriteString(part)
		}
	}
	if left > 0 {
		fmt.Fprintf(&b, "(%d more services have instructions, for which there is no room here.)\n", left)
	}
	s.instructions = b.String()
}
