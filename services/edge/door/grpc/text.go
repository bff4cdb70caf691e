package grpc

import (
	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
)

// JSON is in fields of type bytes, which cost nothing to pass on. People who write
// messages by hand would have to write base64, so each such field has a sibling with this
// ending, for the same JSON as text.
const textEnding = "_text"

// texter is a request that can ask for text in its answer.
type texter interface{ GetAsText() bool }

func wantsText(request any) bool {
	r, ok := request.(texter)
	return ok && r.GetAsText()
}

// arguments are the arguments of a request, read strictly as a JSON object; empty without
// any.
func arguments(r interface {
	GetArguments() []byte
	GetArgumentsText() string
}) (jsontext.Value, error) {
	return object("arguments", r.GetArguments(), r.GetArgumentsText())
}

// object is a JSON object of a request, from its bytes or its text; empty if it has
// neither.
func object(name string, b []byte, text string) (jsontext.Value, error) {
	if text != "" {
		if len(b) > 0 {
			return nil, fault.New(fault.InvalidParams, "give either %[1]s or %[1]s_text", name)
		}
		b = []byte(text)
	}
	if len(b) == 0 {
		return nil, nil
	}
	if err := mcp.Valid(b, mcp.DefaultLimits()); err != nil {
		return nil, err
	}
	if jsontext.Value(b).Kind() != '{' {
		return nil, fault.New(fault.InvalidParams, "%s must be a JSON object", name)
	}
	return b, nil
}

// writeText moves the JSON of an answer, and of all messages in it, from the fields of
// bytes to the fields of text.
func writeText(answer protoreflect.Message) {
	answer.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		text := textOf(f)
		switch {
		case text != nil && f.IsList():
			out := answer.Mutable(text).List()
			for i := range v.List().Len() {
				out.Append(protoreflect.ValueOfString(string(v.List().Get(i).Bytes())))
			}
			answer.Clear(f)
		case text != nil:
			answer.Set(text, protoreflect.ValueOfString(string(v.Bytes())))
			answer.Clear(f)
		case f.Message() != nil && f.IsList():
			for i := range v.List().Len() {
				writeText(v.List().Get(i).Message())
			}
		case f.Message() != nil:
			writeText(v.Message())
		}
		return true
	})
}

// textOf is the field for the same JSON as text; nil without one.
func textOf(f protoreflect.FieldDescriptor) protoreflect.FieldDescriptor {
	if f.Kind() != protoreflect.BytesKind {
		return nil
	}
	return f.ContainingMessage().Fields().ByName(f.Name() + textEnding)
}
