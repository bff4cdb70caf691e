package service_test

import (
	"context"
	"strings"
	"testing"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/service"
)

// tagged has every keyword of a schema tag.
type tagged struct {
	Count   int      `json:"count" schema:"minimum=1,maximum=100,default=7"`
	Price   float64  `json:"price,omitzero" schema:"exclusiveMinimum=0,exclusiveMaximum=1e3,multipleOf=0.25"`
	Reason  string   `json:"reason,omitzero" schema:"enum=broken|wrong|late,title=Why"`
	Code    string   `json:"code,omitzero" schema:"pattern=^[a-z]{2,8}(,|$),minLength=3,maxLength=9,examples=abc|abcd"`
	Mail    string   `json:"mail,omitzero" schema:"format=email"`
	Colours []string `json:"colours" schema:"enum=red|blue,minItems=1,maxItems=3,uniqueItems=true,default=[\"red\"]"`
	Level   *int     `json:"level" schema:"enum=1|2"`
	Loud    bool     `json:"loud" schema:"default=true"`
}

func TestSchemaTags(t *testing.T) {
	t.Parallel()
	s := quiet(t, "svc")
	service.AddTool(s, service.Tool{Name: "t"}, func(_ context.Context, _ *service.Call, in tagged) (tagged, error) { return in, nil })
	c := run(t, s)
	found := c.catalogue("the tool", func(c *busv1.Catalogue) bool { return len(c.Tools) == 1 })
	const properties = `"properties":{` +
		`"count":{"type":"integer","default":7,"minimum":1,"maximum":100},` +
		`"price":{"type":"number","multipleOf":0.25,"exclusiveMinimum":0,"exclusiveMaximum":1000},` +
		`"reason":{"type":"string","title":"Why","enum":["broken","wrong","late"]},` +
		`"code":{"type":"string","examples":["abc","abcd"],"minLength":3,"maxLength":9,"pattern":"^[a-z]{2,8}(,|$)"},` +
		`"mail":{"type":"string","format":"email"},` +
		`"colours":{"type":"array","items":{"type":"string","enum":["red","blue"]},"default":["red"],"minItems":1,"maxItems":3,"uniqueItems":true},` +
		`"level":{"type":["null","integer"],"enum":[1,2,null]},` +
		`"loud":{"type":"boolean","default":true}}`
	same(t, "input schema", string(found.Tools[0].InputSchema), `{"type":"object",`+properties+`,"required":["level"],"additionalProperties":false}`)
	if want := `"outputSchema":{"type":"object",` + properties + `,"required":["count","colours","level","loud"],"additionalProperties":false}`; !strings.Contains(string(found.Tools[0].Json), want) {
		t.Errorf("what is returned is all there: %s", found.Tools[0].Json)
	}
	// A missing argument has its default; a given one replaces it completely.
	for arguments, want := range map[string]string{
		`{"level":null}`: `{"count":7,"colours":["red"],"level":null,"loud":true}`,
		`{"level":1,"count":3,"colours":["blue"],"loud":false}`: `{"count":3,"colours":["blue"],"level":1,"loud":false}`,
	} {
		if got := c.result(tool("t", arguments)); !strings.HasSuffix(got, `"structuredContent":`+want+`}`) {
			t.Errorf("%s: %s", arguments, got)
		}
	}
}

// Every mistake in a tag is reported when the service starts.
func TestSchemaTagsThatAreWrong(t *testing.T) {
	t.Parallel()
	s := quiet(t, "svc")
	wrong := func(name string, add func(*service.Service, service.Tool)) { add(s, service.Tool{Name: name}) }
	wrong("unknown", takes[struct {
		V int `schema:"min=1"`
	}])
	wrong("none", takes[struct {
		V int `schema:"a number"`
	}])
	wrong("no-number", takes[struct {
		V int `schema:"minimum=one"`
	}])
	wrong("no-count", takes[struct {
		V string `schema:"maxLength=-1"`
	}])
	wrong("other-type", takes[struct {
		V string `schema:"maximum=1"`
	}])
	wrong("other-default", takes[struct {
		V int `schema:"default=one"`
	}])
	wrong("default-out-of-bounds", takes[struct {
		V int `schema:"maximum=5,default=6"`
	}])
	wrong("example-out-of-bounds", takes[struct {
		V string `schema:"enum=a|b,examples=a|c"`
	}])
	wrong("bad-pattern", takes[struct {
		V string `schema:"pattern=["`
	}])
	wrong("upside-down", takes[struct {
		V int `schema:"minimum=10,maximum=1"`
	}])
	wrong("items-upside-down", takes[struct {
		V []string `schema:"minLength=3,maxLength=2"`
	}])
	wrong("enum-out-of-bounds", takes[struct {
		V int `schema:"enum=1|7,maximum=5"`
	}])
	wrong("unexported", takes[struct {
		v int `schema:"minimum=1"`
	}])
	wrong("several", takes[struct {
		A int `schema:"minimum=10,maximum=1"`
		b int `schema:"minimum=1"`
		C struct {
			D int `schema:"min=1"`
		}
	}])
	wrong("deep-default", takes[struct {
		V struct {
			W int `schema:"default=1"`
		}
	}])
	wrong("too-large", takes[struct {
		V int8 `schema:"default=300"`
	}])
	_, err := s.Start(t.Context(), bustest.Connect(t, bustest.Server(t)))
	if err == nil {
		t.Fatal("started")
	}
	for _, want := range []string{
		"unknown: input schema: field V: the tag schema has no min: there are default, enum,", `none: input schema: field V: the tag schema is keyword=value,…: "a number"`,
		"field V: minimum=one: not a number", "field V: maxLength=-1: not a whole number from 0 up", "field V: maximum=1: the field is of type string, not number", "field V: default=one: it is no JSON",
		"default-out-of-bounds: input schema: field V: the default: maximum: got 6, want 5", "example-out-of-bounds: input schema: field V: an example:", "bad-pattern: input schema: field V: pattern=[: not a regular expression of Go, which has neither look-arounds nor back references: ",
		"upside-down: input schema: field V: minimum is above maximum: no value fits", "items-upside-down: input schema: field V: minLength is above maxLength",
		"enum-out-of-bounds: input schema: field V: a value of the enum, 7: maximum: got 7, want 5", "unexported: input schema: field v has tags and is not exported",
		"several: input schema: field A: minimum is above maximum: no value fits; field b has tags and is not exported, so that nobody could give it: begin its name with a capital letter; field D: the tag schema has no min: ",
		"deep-default: input schema: field W: a default is only for a field of the arguments themselves", "too-large: input schema:",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("not said: %s", want)
		}
	}
	if t.Failed() {
		t.Log(err)
	}
}

func takes[In any](s *service.Service, t service.Tool) {
	service.AddTool(s, t, func(context.Context, *service.Call, In) (string, error) { return "", nil })
}
