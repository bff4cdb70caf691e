package client

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

const everything = `{"type":"object","additionalProperties":false,"$defs":{"size":{"type":"integer"}},"properties":{
	"text":{"type":"string"},"size":{"$ref":"#/$defs/size"},"share":{"type":"number"},"loud":{"type":"boolean"},
	"tags":{"type":"array","items":{"type":"string"}},"counts":{"type":["array","null"],"items":{"type":"integer"}},
	"order":{"enum":["asc","desc",3]},"maybe":{"anyOf":[{"type":"integer"},{"type":"null"}]},"loose":{},"a.b":{"type":"string"},
	"both":{"type":["integer","string"]},"self":{"$ref":"#/properties/self"},
	"box":{"type":"object","additionalProperties":false,"properties":{"width":{"type":"integer"},"lid":{"type":"object","properties":{"open":{"type":"boolean"}}}}},
	"map":{"type":"object","additionalProperties":{"type":"integer"}}}}`

func readNothing(file string) ([]byte, error) {
	if file == "gone" {
		return nil, errors.New("no such file")
	}
	return []byte("what " + file + " has"), nil
}

func TestAssign(t *testing.T) {
	t.Parallel()
	for texts, want := range map[string]string{
		"text=true":                             `{"text":"true"}`,
		"text=":                                 `{"text":""}`,
		"text=a=b":                              `{"text":"a=b"}`,
		"text=@file":                            `{"text":"what file has"}`,
		"text=@@file":                           `{"text":"@file"}`,
		"text=@gone":                            "no such file",
		"size=12345678901234567890":             `{"size":12345678901234567890}`,
		"size=-3 share=1e3 loud=true":           `{"size":-3,"share":1e3,"loud":true}`,
		"size=1.5":                              `parameter size: "1.5" is not an integer`,
		"size=1e2":                              `{"size":1e2}`,
		"loud=yes":                              `parameter loud: "yes" is not a boolean`,
		"tags=a tags=[":                         "parameter tags: it is given as a whole and element by element",
		"tags=a tags=b":                         `{"tags":["a","b"]}`,
		`tags=["a","b"]`:                        `{"tags":["a","b"]}`,
		`tags=["a"] tags=b`:                     "parameter tags: it is given twice",
		`tags=b tags=["a"]`:                     "parameter tags: it is given as a whole and element by element",
		"counts=1 counts=2":                     `{"counts":[1,2]}`,
		"counts=x":                              `parameter counts: "x" is not an integer`,
		"order=desc":                            `{"order":"desc"}`,
		"order=3":                               `{"order":3}`,
		"order=up":                              `parameter order: "up" is not one of asc, desc, 3`,
		"maybe=null":                            `{"maybe":null}`,
		"maybe=x":                               `parameter maybe: "x" is not an integer or null`,
		"both=3":                                `{"both":3}`,
		"both=three":                            `{"both":"three"}`,
		"loose={} self=x":                       `{"loose":{},"self":"x"}`,
		"a.b=1":                                 `{"a.b":"1"}`,
		"box.width=3 text=x box.lid.open=false": `{"box":{"width":3,"lid":{"open":false}},"text":"x"}`,
		`box={"width":1}`:                       `{"box":{"width":1}}`,
		`box={"width":1} box.width=2`:           "parameter box: it is given as a whole and member by member",
		`box.width=2 box={}`:                    "parameter box: it is given as a whole and member by member",
		"box.with=3":                            "there is no parameter box.with; did you mean width?",
		"map.x=1 map.y=2":                       `{"map":{"x":1,"y":2}}`,
		"map.x=a":                               `parameter map.x: "a" is not an integer`,
		"text.x=1":                              "parameter text: it is a string and has no members",
		"txet=1":                                "there is no parameter txet; did you mean text?",
		"box.=1":                                "write name=value",
		"=1":                                    "write name=value",
		"text":                                  "write name=value",
		"loose." + strings.Repeat("x.", 40) + "=": "write name=value",
	} {
		got, err := assign(jsontext.Value(everything), strings.Fields(texts), readNothing)
		if err != nil {
			got = jsontext.Value(err.Error())
		}
		if string(got) != want && (err == nil || !strings.Contains(string(got), want)) {
			t.Errorf("%s: got %s, want %s", texts, got, want)
		}
	}
}

// Whatever schema and texts, there is an object or a reason.
func FuzzAssign(f *testing.F) {
	f.Add(everything, "box.width=3", "tags=a")
	f.Add(`{"$ref":"#"}`, "a.b.c=1", "a.b=2")
	f.Add(`{"anyOf":[{"$ref":"#"},{"type":"array"}]}`, "a=1", "a=2")
	f.Fuzz(func(t *testing.T, schema, one, two string) {
		got, err := assign(jsontext.Value(schema), []string{one, two}, readNothing)
		if err == nil && (!got.IsValid() || got.Kind() != '{') {
			t.Errorf("%s", got)
		}
	})
}
