// Package yamljson converts YAML to JSON. It refuses YAML that parsers read differently: values
// that some take for text and others for numbers, dates or booleans, tags, anchors, and keys that
// are not text. Start reading at Object.
package yamljson

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"
)

// maxDepth is how far a document may be nested.
const maxDepth = 16

// Object reads one YAML document, of names and values, as a JSON object. The caller limits the
// size. Errors name the line.
func Object(document []byte) (jsontext.Value, error) {
	object, err := parse(document)
	if err != nil {
		return nil, err
	}
	return reader{}.appendNode(nil, object, 0)
}

func parse(document []byte) (*yaml.Node, error) {
	if !utf8.Valid(document) {
		return nil, errors.New("it is not UTF-8")
	}
	d := yaml.NewDecoder(bytes.NewReader(document))
	var first, more yaml.Node
	if err := d.Decode(&first); errors.Is(err, io.EOF) {
		return nil, errors.New("it is empty")
	} else if err != nil {
		return nil, err
	}
	if err := d.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, errors.New("it is more than one YAML document")
	}
	if first.Kind != yaml.DocumentNode || len(first.Content) != 1 || first.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("it is not a list of names and values")
	}
	return first.Content[0], nil
}

// reader reads nodes.
type reader struct {
	// alone is set if no other program reads the document, so a key that some take for a boolean is
	// text.
	alone bool
}

func (r reader) appendNode(b []byte, n *yaml.Node, depth int) ([]byte, error) {
	at := func(format string, args ...any) error {
		return fmt.Errorf("line %d: %s", n.Line, fmt.Sprintf(format, args...))
	}
	switch {
	case depth > maxDepth:
		return nil, at("more than %d levels", maxDepth)
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		return nil, at("anchors and aliases are not read")
	case n.Style&yaml.TaggedStyle != 0:
		return nil, at("tags are not read")
	case n.Kind == yaml.ScalarNode:
		return appendScalar(b, n)
	}
	opens, closes := byte('['), byte(']')
	if n.Kind == yaml.MappingNode {
		opens, closes = '{', '}'
	}
	b = append(b, opens)
	seen := map[string]bool{}
	for i, c := range n.Content {
		key := n.Kind == yaml.MappingNode && i%2 == 0
		switch {
		case key && (c.Kind != yaml.ScalarNode || c.Tag != "!!str"):
			return nil, fmt.Errorf("line %d: a key has to be text; put it in quotes", c.Line)
		case key && seen[c.Value]:
			return nil, fmt.Errorf("line %d: %.80q appears twice", c.Line, c.Value)
		case key:
			seen[c.Value] = true
		}
		if n.Kind == yaml.MappingNode && !key {
			b = append(b, ':')
		} else if i > 0 {
			b = append(b, ',')
		}
		var err error
		if key && r.alone {
			b, err = jsontext.AppendQuote(b, c.Value)
		} else {
			b, err = r.appendNode(b, c, depth+1)
		}
		if err != nil {
			return nil, err
		}
	}
	return append(b, closes), nil
}

var (
	// number matches numbers that every reader takes for a number, and that doubles represent
	// exactly.
	number = regexp.MustCompile(`^-?(0|[1-9][0-9]{0,14})(\.[0-9]{1,15})?$`)
	// sometimes matches texts that YAML 1.1 readers take for something else: booleans, and numbers
	// to the base 60.
	sometimes = regexp.MustCompile(`^(?i:yes|no|on|off|=|[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?)$`)
)

func appendScalar(b []byte, n *yaml.Node) ([]byte, error) {
	const quoted = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
	plain := n.Style&quoted == 0
	switch {
	case n.Tag == "!!str" && !(plain && sometimes.MatchString(n.Value)):
		return jsontext.AppendQuote(b, n.Value)
	case n.Tag == "!!null":
		return append(b, "null"...), nil
	case n.Tag == "!!bool":
		return append(b, strings.ToLower(n.Value)...), nil
	case (n.Tag == "!!int" || n.Tag == "!!float") && number.MatchString(n.Value):
		return append(b, n.Value...), nil
	}
	return nil, fmt.Errorf("line %d: %.80q is not the same to every reader of YAML; put it in quotes", n.Line, n.Value)
}
