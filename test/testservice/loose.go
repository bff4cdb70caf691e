package testservice

import (
	"context"
	stdjson "encoding/json"
	"errors"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/service"
)

// loose has fields of which a schema can say little.
type loose struct {
	Any     any                `json:"any"`
	Error   error              `json:"error"`
	Raw     stdjson.RawMessage `json:"raw"`
	Value   jsontext.Value     `json:"value"`
	Map     map[string]any     `json:"map"`
	List    []any              `json:"list"`
	Pointer *any               `json:"pointer"`
	Time    time.Time          `json:"time"`
	Bytes   []byte             `json:"bytes"`
	Number  int64              `json:"number,string"`
}

// booleans is a schema as services in other languages announce it: with subschemas that are true or
// false.
const booleans = `{"type":"object","properties":{"any":true,"list":{"type":"array","items":true},"never":false}}`

func addLoose(s *service.Service) {
	type nothing struct{}
	service.AddTool(s, service.Tool{Name: "loose", ReadOnly: true}, func(context.Context, *service.Call, nothing) (loose, error) {
		return loose{
			Any: []any{1, "x"}, Error: errors.New("said"), Raw: stdjson.RawMessage(`{"a":1}`), Value: jsontext.Value(`[true]`),
			Map: map[string]any{"a": nil}, List: []any{1, nil}, Time: time.Unix(0, 0).UTC(), Bytes: []byte{1}, Number: 1 << 60,
		}, nil
	})
	service.AddTool(s, service.Tool{Name: "booleans", ReadOnly: true, InputSchema: []byte(booleans), OutputSchema: []byte(booleans)},
		func(_ context.Context, _ *service.Call, arguments []byte) (jsontext.Value, error) {
			return arguments, nil
		})
}
