package summary

import (
	"strings"

	"github.com/busbar-mcp/busbar/services/text/internal/segment"
)

// fence opens and closes a block of program code in Markdown.
const fence = "```"

// inCode reports for each sentence whether it is part of a fenced code block, fences included. As in
// Markdown, an unclosed fence extends to the end.
func inCode(text string, sentences []segment.Sentence) []bool {
	code := make([]bool, len(sentences))
	if !strings.Contains(text, fence) {
		return code
	}
	i, inside, offset := 0, false, 0
	for line := range strings.Lines(text) {
		marks := strings.HasPrefix(strings.TrimLeft(line, " \t>"), fence)
		offset += len(line)
		for ; i < len(sentences) && sentences[i].Start < offset; i++ {
			code[i] = inside || marks
		}
		if marks {
			inside = !inside
		}
	}
	return code
}
