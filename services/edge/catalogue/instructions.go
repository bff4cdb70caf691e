package catalogue

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/edge/definition"
)

// maxInstructions bounds the instructions of all services together, in bytes: clients put them
// before every conversation.
//
//limit:service instructions of all services together | services without room are left out and counted
const maxInstructions = 8 << 10

// instruction is the text of one service for models.
type instruction struct{ service, text string }

// addInstructions takes the instructions of a service. If definitions have to be accepted,
// instructions are left out: nobody has accepted them.
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
		return // it says nothing visible
	}
	b.said = append(b.said, instruction{service, text})
}

// instructed is the text as models get it. It has only characters that a person can see. Each
// line is indented, so that it cannot pass for the text of another service. A block of code that
// the text leaves open is closed: the text of the next service is not part of it.
func instructed(said string) (string, error) {
	if len(said) > service.MaxInstructions {
		return "", fmt.Errorf("they have more than %d bytes", service.MaxInstructions)
	}
	seen := strings.Map(func(r rune) rune {
		switch {
		case r == '\n':
			return r
		case unicode.IsSpace(r): // a text could also be hidden in spaces that differ
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

// fenced is the fence of the Markdown block of code that is open after a line. open is the fence
// before the line; empty means no block.
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

// Instructions are the texts of services for models, by the names of the services, for services
// that have something in the lists. It is empty if no service has any.
func (s *Snapshot) Instructions() string { return s.instructions }

// instruct joins the instructions of the services that have something in the lists, within the
// bound for all. Each text is an item of a list: Markdown ends it at the next item, whatever the
// text left open, such as a comment or an element of HTML.
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
