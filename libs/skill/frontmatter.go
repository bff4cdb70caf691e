package skill

import (
	"errors"
	"fmt"
	"regexp"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/yamljson"
)

// maxFrontmatter bounds a frontmatter, in bytes.
const maxFrontmatter = 32 << 10

// frontmatter reads the YAML that a SKILL.md begins with, between two lines of
// three hyphens: all of it as a JSON object, and those of its fields that are
// texts.
//
// Hosts compare what they read there with what the server says it is, and load
// no skill where the two differ. So YAML that its readers disagree about is
// refused.
func frontmatter(file []byte) (object jsontext.Value, texts map[string]string, err error) {
	if !utf8.Valid(file) {
		return nil, nil, errors.New("it is not UTF-8")
	}
	text, err := between(file)
	if err != nil {
		return nil, nil, err
	}
	if object, err = yamljson.Object(text); err != nil {
		return nil, nil, fmt.Errorf("its frontmatter: %w", err)
	}
	var fields map[string]jsontext.Value
	if err := json.Unmarshal(object, &fields); err != nil {
		return nil, nil, err
	}
	texts = map[string]string{}
	for name, v := range fields {
		if v.Kind() == '"' {
			var s string
			if err := json.Unmarshal(v, &s); err != nil {
				return nil, nil, err
			}
			texts[name] = s
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
