package doctor

import (
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/services/busbar/internal/terminal"
)

// Layout of what people read.
const (
	checkWidth = 14
	stateWidth = 9
)

// Show prints findings for people. Text of others cannot steer the terminal.
func Show(out io.Writer, all []Finding, style terminal.Style, width int) error {
	var b strings.Builder
	text := max(width-checkWidth-stateWidth, 30)
	line := func(first, second, what string) {
		for _, part := range terminal.Wrap(terminal.SafeLine(what), text) {
			fmt.Fprintf(&b, "%s%s%s\n", first, second, part)
			first, second = strings.Repeat(" ", checkWidth), strings.Repeat(" ", stateWidth)
		}
	}
	before := ""
	count := map[State]int{}
	for _, f := range all {
		count[f.State]++
		name := f.Check
		if name == before {
			name = ""
		}
		before = f.Check
		line(fmt.Sprintf("%-*s", checkWidth, name), coloured(f.State, style), f.What)
		for _, more := range []struct{ name, text string }{{"so:", f.Follows}, {"mend:", f.Mend}} {
			if more.text != "" {
				line(strings.Repeat(" ", checkWidth), fmt.Sprintf("%*s ", stateWidth-1, more.name), more.text)
			}
		}
	}
	fmt.Fprintf(&b, "\n%d wrong, %d to look at, %d as they should be\n", count[Wrong], count[Warn], count[OK])
	_, err := io.WriteString(out, b.String())
	return err
}

func coloured(s State, style terminal.Style) string {
	word := fmt.Sprintf("%-*s", stateWidth, s)
	switch s {
	case Wrong:
		return style.Red(word)
	case Warn:
		return style.Yellow(word)
	}
	return style.Dim(word)
}

// ShowJSON prints findings for programs.
func ShowJSON(out io.Writer, all []Finding) error {
	return json.MarshalWrite(out, map[string]any{"state": Worst(all), "findings": all}, json.Deterministic(true), jsontext.Multiline(true))
}
