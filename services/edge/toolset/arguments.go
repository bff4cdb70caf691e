package toolset

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/fault"
)

// Arguments returns the arguments of a call with the member's fixed ones added. It refuses a client's
// value for one of these, in any spelling that a service might read as the same name. Arguments that are
// not an object stay unchanged; the schema refuses them.
func (m *Member) Arguments(arguments []byte) ([]byte, error) {
	if len(m.Fixed) == 0 {
		return arguments, nil
	}
	folded := map[string]string{}
	out := []byte{'{'}
	for _, name := range slices.Sorted(maps.Keys(m.Fixed)) {
		folded[fold(name)] = name
		out = append(appendName(out, name), m.Fixed[name]...)
	}
	if len(bytes.TrimSpace(arguments)) == 0 {
		return append(out, '}'), nil
	}
	d := jsontext.NewDecoder(bytes.NewReader(arguments))
	if d.PeekKind() != '{' {
		return arguments, nil
	}
	_, err := d.ReadToken()
	for err == nil && d.PeekKind() == '"' {
		var name jsontext.Token
		if name, err = d.ReadToken(); err != nil {
			break
		}
		said := name.String()
		if fixed, taken := folded[fold(said)]; taken {
			return nil, Fixed(said, fixed)
		}
		var value jsontext.Value
		if value, err = d.ReadValue(); err == nil {
			out = append(appendName(out, said), value...)
		}
	}
	if err == nil {
		_, err = d.ReadToken()
	}
	if err != nil {
		return nil, fault.New(fault.InvalidParams, "the arguments are not a JSON object, or contain a name twice").Because(err)
	}
	return append(out, '}'), nil
}

// Fixed returns the error for an argument that a set has fixed.
func Fixed(said, fixed string) error {
	detail := "is not an argument here: this toolset has fixed it; omit it"
	if said != fixed {
		detail = "is not an argument here: its name is like one that this toolset has fixed; omit it"
	}
	said = fault.Clip(said)
	data, _ := jsontext.AppendQuote([]byte(`{"parameter":`), said) // valid, because it was read as JSON
	data, _ = jsontext.AppendQuote(append(data, `,"detail":`...), detail)
	return fault.New(fault.InvalidParams, "Invalid arguments: %s %s", said, detail).With(append(data, '}'))
}

// Fixes reports whether the member fixes an argument, in any spelling.
func (m *Member) Fixes(said string) bool {
	for name := range m.Fixed {
		if fold(name) == fold(said) {
			return true
		}
	}
	return false
}

func appendName(b []byte, name string) []byte {
	if len(b) > 1 {
		b = append(b, ',')
	}
	b, _ = jsontext.AppendQuote(b, name) // valid, because it was read as JSON
	return append(b, ':')
}

// fold returns the same text for names that JSON decoders may confuse: some ignore case, underscores and
// dashes.
func fold(name string) string {
	return strings.Map(func(r rune) rune {
		switch r {
		case '_', '-':
			return -1
		case 'ſ': // folds to s, and the sign of Kelvin, which ToLower knows, to k
			return 's'
		}
		return r
	}, strings.ToLower(strings.ToUpper(name)))
}
