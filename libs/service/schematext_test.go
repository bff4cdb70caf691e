package service

import (
	"reflect"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/schema"
)

// The encoded schema equals the library's encoding after Plain, byte by byte.
func TestSchemaText(t *testing.T) {
	t.Parallel()
	type part struct {
		Z int            `json:"z" jsonschema:"the <last> letter"`
		A *string        `json:"a,omitempty" schema:"enum=x|y"`
		M map[string]any `json:"m,omitzero"`
	}
	type embedded struct {
		Early bool `json:"early"`
	}
	type all struct {
		embedded
		AdditionalProperties any               `json:"additionalProperties"`
		Properties           map[string]part   `json:"properties"`
		Items                []part            `json:"items" schema:"minItems=1,maxItems=9,uniqueItems=true,title=Things"`
		Not                  struct{}          `json:"not"`
		Number               float64           `json:"number" schema:"minimum=-1.5,exclusiveMaximum=1e21,multipleOf=0.5,default=0.5,examples=1|2"`
		Text                 string            `json:"text" schema:"format=email,pattern=^[a-z\u2028]+$,minLength=1,maxLength=80"`
		Quoted               int64             `json:"quoted,string"`
		Raw                  jsontext.Value    `json:"raw"`
		At                   time.Time         `json:"at"`
		Data                 []byte            `json:"data"`
		Pairs                [2]int            `json:"pairs"`
		Names                map[string]string `json:"names"`
	}
	for _, of := range []reflect.Type{reflect.TypeFor[all](), reflect.TypeFor[[]all](), reflect.TypeFor[map[string]any](), reflect.TypeFor[struct{}](), reflect.TypeFor[any](), reflect.TypeFor[int]()} {
		s, err := (&mender{types: asMarshalled{}, arguments: of.Kind() == reflect.Struct}).infer(of)
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		want, _, err := schema.Plain(theirs)
		if of == reflect.TypeFor[any]() {
			want = []byte(`{}`) // Plain leaves the root unchanged
		}
		if err != nil {
			t.Fatal(err)
		}
		if got, err := plain(s); err != nil || string(got) != string(want) {
			t.Errorf("%v: %v\ngot  %s\nwant %s", of, err, got, want)
		}
	}
}
