package service

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
)

// Result is for handlers that return more than a value: content other than text, or no structured
// content.
type Result struct {
	Content []mcp.Content
	// Structured is marshalled as structuredContent unless nil.
	Structured any
	// IsError marks the tool's own failure; Content says what went wrong.
	IsError bool
	// Meta is marshalled as _meta, a JSON object, unless nil: for the client's program,
	// not for its model. Its keys begin with a domain of your own, com.example/.
	Meta any
}

// decode reads arguments strictly: names are compared case-sensitively, which
// encoding/json does not do.
func decode[In any](arguments []byte, d defaults) (In, error) {
	var in In
	if len(arguments) == 0 {
		arguments = []byte("{}")
	}
	if raw, ok := any(&in).(*[]byte); ok {
		*raw = arguments
		return in, nil
	}
	d.of(&in)
	if err := json.Unmarshal(arguments, &in, durations); err != nil {
		at, message := misread(err)
		if at != "" {
			message = "Invalid arguments: " + at + ": " + message
		}
		return in, fault.New(fault.InvalidParams, "%s", message).Because(err)
	}
	return in, nil
}

// misread describes a value that the schema allows but the Go type does not accept, with its JSON
// Pointer: to a schema, 1.0 and 1e30 are integers and any text is a time. The pointer is empty if
// the place is unknown.
func misread(err error) (pointer, message string) {
	at := (*json.SemanticError)(nil)
	if !errors.As(err, &at) || at.JSONPointer == "" {
		return "", "the arguments do not fit what the service reads"
	}
	message = "want " + wanted(at.GoType)
	if len(at.JSONValue) > 0 {
		message = "got " + fault.Clip(string(at.JSONValue)) + ", " + message
	}
	return fault.Clip(string(at.JSONPointer)), message
}

// wanted describes how to write a value of a type.
func wanted(t reflect.Type) string {
	switch {
	case t == nil:
	case t == reflect.TypeFor[time.Time]():
		return "a date and time as in RFC 3339, such as 2006-01-02T15:04:05Z"
	case special(t) == base64 && t.Kind() == reflect.Array:
		return fmt.Sprintf("base64, padded with =, of %d bytes", t.Len())
	case special(t) == base64:
		return "base64, padded with ="
	case t.Kind() >= reflect.Int && t.Kind() <= reflect.Uint64:
		return "a whole number of at most 64 bits, without a point or an exponent"
	}
	return "a value that the service can read"
}

// encode makes the result of a value: structured content, and the same as text for clients that
// read only that, as the specification asks. A value that is a string in JSON is its text, without
// quotes; it is also structured content, but only if the tool has an output schema. null has no
// text.
func encode(out any, options json.Options, described bool) (*busv1.Result, error) {
	switch out := out.(type) {
	case *Result:
		if out == nil {
			return nil, errors.New("handler returned a nil *Result")
		}
		return encodeResult(out)
	case Result:
		return encodeResult(&out)
	}
	structured, err := json.Marshal(out, options)
	if err != nil {
		return nil, err
	}
	isText := jsontext.Value(structured).Kind() == '"'
	data := append(make([]byte, 0, 2*len(structured)+len(structured)/4+80), `{"content":[`...)
	switch {
	case isText:
		data = append(append(append(data, textBlock...), structured...), '}')
	case jsontext.Value(structured).Kind() == 'n': // nothing, which has no text
	default:
		if data, err = jsontext.AppendQuote(append(data, textBlock...), structured); err != nil {
			return nil, err
		}
		data = append(data, '}')
	}
	data = append(data, ']')
	if !isText || described {
		data = append(append(data, `,"structuredContent":`...), structured...)
	}
	data = append(data, '}')
	if n := len(data); n > bus.MaxResult && n > len(structured)+len(structured)/2 {
		return nil, fault.New(fault.ResultTooLarge, "the result is %d bytes of JSON, which makes %d bytes as text and structured content; the limit is %d. Ask for less, or have the tool return a resource link", len(structured), n, bus.MaxResult)
	}
	return &busv1.Result{Json: data}, nil
}

// textBlock is the beginning of a text block.
const textBlock = `{"type":"text","text":`

func encodeResult(r *Result) (*busv1.Result, error) {
	content := r.Content
	if content == nil {
		content = []mcp.Content{}
	}
	data, err := marshal(struct {
		Content    []mcp.Content `json:"content"`
		Structured any           `json:"structuredContent,omitzero"`
		IsError    bool          `json:"isError,omitzero"`
	}{content, r.Structured, r.IsError})
	if err != nil {
		return nil, err
	}
	meta, err := metaOf(r.Meta)
	return &busv1.Result{Json: data, IsError: r.IsError, Meta: meta}, err
}

// metaOf marshals a _meta. It is nil if v is nil, or a nil of some type.
func metaOf(v any) (mcp.Meta, error) {
	if v == nil {
		return nil, nil
	}
	data, err := marshal(v)
	switch meta := jsontext.Value(data); {
	case err != nil:
		return nil, fmt.Errorf("Meta: %w", err)
	case meta.Kind() == 'n':
		return nil, nil
	case meta.Kind() != '{':
		return nil, errors.New("Meta is not a JSON object")
	default:
		return data, nil
	}
}

// marshal is deterministic, so that equal values have equal bytes everywhere.
func marshal(v any) ([]byte, error) { return json.Marshal(v, plainly) }

var plainly = json.JoinOptions(json.Deterministic(true), durations)

// marshalOptions are the JSON options for values of a type. If the type contains errors, an error
// without a JSON form of its own is encoded as its text.
func marshalOptions[T any]() json.Options {
	types := asMarshalled{}
	types.add(reflect.TypeFor[T](), map[reflect.Type]bool{})
	if types[reflect.TypeFor[error]()] == nil {
		return plainly
	}
	return json.JoinOptions(plainly, json.WithMarshalers(json.MarshalToFunc(func(to *jsontext.Encoder, err error) error {
		t := reflect.TypeOf(err)
		if implements[json.MarshalerTo](t) || implements[json.Marshaler](t) || implements[encoding.TextMarshaler](t) || implements[encoding.TextAppender](t) {
			return errors.ErrUnsupported
		}
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if t.Kind() == reflect.Struct && slices.ContainsFunc(reflect.VisibleFields(t), func(f reflect.StructField) bool { return f.IsExported() && !f.Anonymous }) {
			return errors.ErrUnsupported
		}
		return to.WriteToken(jsontext.String(err.Error()))
	})))
}

// durations are encoded in nanoseconds, as inferred schemas say.
var durations = jsonv1.FormatDurationAsNano(true)
