package client

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// decode reads JSON. Unknown members are the server's right.
func decode(raw []byte, into any) error { return json.Unmarshal(raw, into) }

// eachMember visits an object's members in order. Nothing or null is empty.
func eachMember(object jsontext.Value, visit func(name string, v jsontext.Value) error) error {
	if len(object) == 0 || object.Kind() == 'n' {
		return nil
	}
	if object.Kind() != '{' {
		return errors.New("not an object")
	}
	d := jsontext.NewDecoder(bytes.NewReader(object))
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return err
		}
		key := name.String() // before the next read, which reuses its bytes
		v, err := d.ReadValue()
		if err != nil {
			return err
		}
		if err := visit(key, v.Clone()); err != nil {
			return err
		}
	}
	return nil
}

// sameJSON reports whether two texts are the same value: members in any order,
// strings and fractions in any spelling, integers digit by digit.
func sameJSON(a, b jsontext.Value) bool {
	a, b = a.Clone(), b.Clone()
	normal := []jsontext.Options{
		jsontext.ReorderRawObjects(true), jsontext.CanonicalizeRawFloats(true), jsontext.Multiline(false),
	}
	return a.Format(normal...) == nil && b.Format(normal...) == nil && bytes.Equal(a, b)
}

// indented returns JSON laid out for reading.
func indented(v jsontext.Value) string {
	v = v.Clone()
	// It was checked when it came; failing that, v stays as it is.
	_ = v.Format(jsontext.Multiline(true), jsontext.WithIndent("  "), jsontext.PreserveRawStrings(true))
	return string(v)
}

// oneLine returns JSON as received, without line breaks.
func oneLine(v jsontext.Value) string {
	if !bytes.ContainsAny(v, "\r\n") {
		return string(v)
	}
	v = v.Clone()
	_ = v.Compact() // it was checked when it came; failing that, v stays as it is
	return string(v)
}

// checkArguments checks that the text is one JSON object, and says where it
// is not. It returns it without white space, which is how it will be sent.
func checkArguments(text []byte) (jsontext.Value, error) {
	if text == nil {
		return jsontext.Value("{}"), nil
	}
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, &UsageError{Message: "the arguments are empty; write {} for none"}
	}
	var v jsontext.Value
	if err := json.Unmarshal(text, &v); err != nil {
		return nil, &UsageError{Message: jsonMistake(text, err)}
	}
	if v.Kind() != '{' {
		return nil, &UsageError{Message: fmt.Sprintf("the arguments must be a JSON object such as {\"text\": \"…\"}, not %s", kindName(v.Kind()))}
	}
	if err := v.Compact(); err != nil {
		return nil, &UsageError{Message: "the arguments are not JSON: " + err.Error()}
	}
	return v, nil
}

// jsonMistake says in which line and column, both from 1, the mistake is.
func jsonMistake(text []byte, err error) string {
	var at *jsontext.SyntacticError
	if !errors.As(err, &at) {
		return "the arguments are not JSON: " + err.Error()
	}
	before := text[:min(max(int(at.ByteOffset), 0), len(text))]
	line := 1 + bytes.Count(before, []byte("\n"))
	column := 1 + utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:])
	message := fmt.Sprintf("the arguments are not JSON: line %d, column %d: %v", line, column, at.Err)
	if at.JSONPointer != "" {
		message += " (at " + string(at.JSONPointer) + ")"
	}
	return message
}

func kindName(k jsontext.Kind) string {
	switch k {
	case '[':
		return "an array"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case 't', 'f':
		return "a boolean"
	}
	return k.String()
}
