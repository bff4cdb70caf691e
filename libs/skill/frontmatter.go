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

// maxFrontmatter is the largest frontmatter, in bytes.
//
//limit:service frontmatter of a skill | the service does not start
const maxFrontmatter = 32 << 10

// frontmatter reads the YAML at the beginning of a SKILL.md, between two lines of three hyphens. It
// returns all of it as a JSON object, and its text fields.
//
// Hosts compare what they read there with what the server reports, and load no skill if the two differ. So
// YAML that different parsers read differently is refused.
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

// front matches a frontmatter in the same way as hosts do.
var front = regexp.MustCompile(`^---\r?\n((?s:.*?)\r?\n)---[ \t]*(?:\r?\n|$)`)

// between returns the frontmatter with the line before it, so that line numbers in errors agree
// with the file.
func between(file []byte) ([]byte, error) {
	at := front.FindSubmatchIndex(file)
	if at == nil {
		return nil, errors.New("it has no frontmatter; begin it with YAML between two lines of three hyphens")
	}
	if at[3] > maxFrontmatter {
		return nil, fmt.Errorf("its frontmatter is longer than %d KiB", maxFrontmatter>>10)
	}
	return file[:at[3]], nil
}
