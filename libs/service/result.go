package service

import (
	"encoding"
	"errors"
	"reflect"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
)

// Result is what a handler returns that wants to say more than a value: other
// content than text, or no structured content.
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
		return in, misread(err)
	}
	return in, nil
}

// misread refuses arguments that the schema allows and their type does not: to a schema
// 1.0 and 1e30 are integers.
func misread(err error) error {
	at := (*json.SemanticError)(nil)
	if !errors.As(err, &at) || at.JSONPointer == "" {
		return fault.New(fault.InvalidParams, "arguments do not fit the tool's parameters").Because(err)
	}
	want := "a value that the service can read"
	if at.GoType != nil && at.GoType.Kind() >= reflect.Int && at.GoType.Kind() <= reflect.Uint64 {
		want = "a whole number of at most 64 bits, without a point or an exponent"
	}
	got := fault.Clip(string(at.JSONValue))
	return fault.New(fault.InvalidParams, "Invalid arguments: %s: got %s, want %s", fault.Clip(string(at.JSONPointer)), got, want).Because(err)
}

func encode(out any, options json.Options) (*busv1.Result, error) {
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
	// The value goes out twice, as the specification asks: as text for clients
	// that read only that, and as structured content.
	data := append(make([]byte, 0, 2*len(structured)+len(structured)/4+80), `{"content":[{"type":"text","text":`...)
	if data, err = jsontext.AppendQuote(data, structured); err != nil {
		return nil, err
	}
	data = append(data, `}],"structuredContent":`...)
	data = append(append(data, structured...), '}')
	return &busv1.Result{Json: data}, nil
}

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
	result := &busv1.Result{Json: data, IsError: r.IsError}
	if r.Meta == nil {
		return result, nil
	}
	if result.Meta, err = marshal(r.Meta); err != nil {
		return nil, err
	}
	switch jsontext.Value(result.Meta).Kind() {
	case 'n':
		result.Meta = nil // a nil of some type
	case '{':
	default:
		return nil, errors.New("the Meta of a result is a JSON object")
	}
	return result, nil
}

// marshal is deterministic, so that equal values have equal bytes everywhere.
func marshal(v any) ([]byte, error) { return json.Marshal(v, plainly) }

var plainly = json.JoinOptions(json.Deterministic(true), durations)

// marshalOptions are those for values of a type. Where it has errors, one that
// says nothing as JSON is its text.
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

// durations are nanoseconds, as inferred schemas say.
var durations = jsonv1.FormatDurationAsNano(true)
