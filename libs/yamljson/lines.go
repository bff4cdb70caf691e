package yamljson

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"
)

// Lines has the line of each value in a document. A member begins at the line of its key.
type Lines map[jsontext.Pointer]int

// ObjectLines is Object with line numbers, for a document that no other program reads: its keys may
// be words that some readers take for booleans, such as on.
func ObjectLines(document []byte) (jsontext.Value, Lines, error) {
	object, err := parse(document)
	if err != nil {
		return nil, nil, err
	}
	value, err := reader{alone: true}.appendNode(nil, object, 0)
	if err != nil {
		return nil, nil, err
	}
	lines := Lines{}
	lines.add("", object.Line, object)
	return value, lines, nil
}

// Of returns the line of a value, or of the nearest existing value around it.
func (l Lines) Of(p jsontext.Pointer) int {
	for ; p != ""; p = p.Parent() {
		if line, ok := l[p]; ok {
			return line
		}
	}
	return l[""]
}

func (l Lines) add(p jsontext.Pointer, line int, n *yaml.Node) {
	l[p] = line
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			l.add(p.AppendToken(n.Content[i].Value), n.Content[i].Line, n.Content[i+1])
		}
	case yaml.SequenceNode:
		for i, c := range n.Content {
			l.add(p.AppendToken(strconv.Itoa(i)), c.Line, c)
		}
	}
}
