package skill

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

// Bounds of a frontmatter.
const (
	maxFrontmatter = 32 << 10
	maxDepth       = 16
)

// frontmatter reads the YAML that a SKILL.md begins with, between two lines of
// three hyphens: all of it as a JSON object, and those of its fields that are
// texts.
//
// Hosts compare what they read there with what the server says it is, and load
// no skill where the two differ. So YAML that its readers disagree about is
// refused: values that some take for text and others for numbers, dates or
// booleans, tags, anchors, and keys that are no text.
func frontmatter(file []byte) (object jsontext.Value, texts map[string]string, err error) {
	if !utf8.Valid(file) {
		return nil, nil, errors.New("it is not UTF-8")
	}
	text, err := between(file)
	if err != nil {
		return nil, nil, err
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	var document, more yaml.Node
	if err := d.Decode(&document); err != nil {
		return nil, nil, fmt.Errorf("its frontmatter: %w", err)
	}
	if err := d.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, nil, errors.New("its frontmatter is more than one YAML document")
	}
	if document.Kind != yaml.DocumentNode || len(document.Content) != 1 || document.Content[0].Kind != yaml.MappingNode {
		return nil, nil, errors.New("its frontmatter is not a list of names and values")
	}
	fields := document.Content[0]
	if object, err = appendNode(nil, fields, 0); err != nil {
		return nil, nil, fmt.Errorf("its frontmatter, %w", err)
	}
	texts = map[string]string{}
	for i := 0; i < len(fields.Content); i += 2 {
		if v := fields.Content[i+1]; v.Kind == yaml.ScalarNode && v.Tag == "!!str" {
			texts[fields.Content[i].Value] = v.Value
		}
	}
	return object, texts, nil
}

// front is how hosts find a frontmatter.
var front = regexp.MustCompile(`^---\r?\n((?s:.*?)\r?\n)---[ \t]*(?:\r?\n|$)`)

// between returns the frontmatter with the line before it, so that errors name
// the lines of the file.
func between(file []byte) ([]byte, error) {
	at := front.FindSubmatchIndex(file)
	if at == nil {
		return nil, errors.New("it does not begin with a frontmatter between two lines of three hyphens")
	}
	if at[3] > maxFrontmatter {
		return nil, fmt.Errorf("its frontmatter is longer than %d KiB", maxFrontmatter>>10)
	}
	return file[:at[3]], nil
}

func appendNode(b []byte, n *yaml.Node, depth int) ([]byte, error) {
	at := func(format string, args ...any) error {
		return fmt.Errorf("line %d: %s", n.Line, fmt.Sprintf(format, args...))
	}
	switch {
	case depth > maxDepth:
		return nil, at("more than %d levels", maxDepth)
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		return nil, at("anchors and aliases are not for frontmatter")
	case n.Style&yaml.TaggedStyle != 0:
		return nil, at("tags are not for frontmatter")
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
			return nil, fmt.Errorf("line %d: %.80q stands twice", c.Line, c.Value)
		case key:
			seen[c.Value] = true
		}
		if n.Kind == yaml.MappingNode && !key {
			b = append(b, ':')
		} else if i > 0 {
			b = append(b, ',')
		}
		var err error
		if b, err = appendNode(b, c, depth+1); err != nil {
			return nil, err
		}
	}
	return append(b, closes), nil
}

var (
	// number is one to every reader, and kept by those that compute in doubles.
	number = regexp.MustCompile(`^-?(0|[1-9][0-9]{0,14})(\.[0-9]{1,15})?$`)
	// sometimes are texts that readers of YAML 1.1 take for something else:
	// truth, and numbers to the base 60.
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
