package template

import (
	"strconv"
	"strings"

	"github.com/busbar-mcp/busbar/libs/fault"
)

// renderer writes the texts of one prompt. Its limits apply to all of them
// together.
type renderer struct {
	values map[string]value
	out    strings.Builder
	bytes  int
	steps  int
}

var tooLong = fault.New(fault.InvalidParams, "with these arguments the prompt is longer than %d KiB; shorten the arguments", MaxOutput>>10)

func (r *renderer) text(nodes []node) (string, error) {
	r.out.Reset()
	err := r.nodes(nodes)
	return r.out.String(), err
}

func (r *renderer) write(s string) error {
	if r.bytes += len(s); r.bytes > MaxOutput {
		return tooLong
	}
	r.out.WriteString(s)
	return nil
}

func (r *renderer) nodes(nodes []node) error {
	for i := range nodes {
		if r.steps++; r.steps > maxSteps {
			return tooLong
		}
		if err := r.node(&nodes[i]); err != nil {
			return err
		}
	}
	return nil
}

func (r *renderer) node(n *node) error {
	switch {
	case n.branches != nil:
		for _, b := range n.branches {
			if r.holds(b.when) {
				return r.nodes(b.body)
			}
		}
		return nil
	case n.each != "":
		return r.loop(n)
	case n.fenced:
		return r.write(fenced(r.values[n.name].text, r.values[n.info].text))
	case n.name != "":
		return r.write(r.values[n.name].text)
	}
	return r.write(n.literal)
}

func (r *renderer) holds(c condition) bool {
	v := r.values[c.name]
	switch {
	case c.name == "":
		return true
	case c.is != nil:
		return (v.text == *c.is) != c.not
	}
	return v.set != c.not
}

func (r *renderer) loop(n *node) error {
	outerThis, outerNumber := r.values[this], r.values[number]
	defer func() { r.values[this], r.values[number] = outerThis, outerNumber }()
	for i, item := range r.values[n.each].items {
		r.values[this] = value{text: item, set: true}
		r.values[number] = value{text: strconv.Itoa(i + 1), set: true}
		if err := r.nodes(n.body); err != nil {
			return err
		}
	}
	return nil
}

// fenced puts text in a code block that the text cannot close.
func fenced(text, info string) string {
	longest, run := 0, 0
	for _, c := range text {
		if c == '`' {
			run++
			longest = max(longest, run)
		} else {
			run = 0
		}
	}
	fence := strings.Repeat("`", max(3, longest+1))
	// Keep only characters of a language name, because it stands on the line of the fence.
	info = strings.Map(func(c rune) rune {
		if c == '`' || c <= ' ' || c == 0x7f {
			return -1
		}
		return c
	}, info)
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return fence + info + "\n" + text + fence
}
