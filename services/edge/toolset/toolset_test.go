package toolset_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/services/edge/toolset"
)

func fixed(pairs ...string) map[string]jsontext.Value {
	all := map[string]jsontext.Value{}
	for i := 0; i < len(pairs); i += 2 {
		all[pairs[i]] = jsontext.Value(pairs[i+1])
	}
	return all
}

// A client cannot set a fixed argument, in any spelling; everything else passes
// unchanged.
func FuzzArguments(f *testing.F) {
	for _, seed := range []string{
		``, `{}`, ` { "key" : 1.0e3 } `, `{"table":"x"}`, `{"Table":"x"}`, `{"ta_ble":1}`, `{"a":1,"a":2}`, `[]`, `"x"`, `{`, `{"tab\u006ce":1}`, `{"ſ":1}`, `{"a":{"table":1}}`, `{"é":[]}x`,
	} {
		f.Add([]byte(seed))
	}
	m := toolset.Member{Tool: "lookup", Fixed: fixed("table", `"orders"`, "Sort_by", `{"by":["a"]}`)}
	f.Fuzz(func(t *testing.T, arguments []byte) {
		out, err := m.Arguments(arguments)
		if err != nil {
			return
		}
		var sent map[string]json.RawMessage
		if json.Unmarshal(arguments, &sent) != nil && len(strings.TrimSpace(string(arguments))) > 0 {
			return // not an object: the schema refuses it
		}
		var got map[string]json.RawMessage
		if err := json.Unmarshal(out, &got); err != nil {
			if !json.Valid(arguments) {
				return
			}
			t.Fatalf("%q became %q", arguments, out)
		}
		if strings.TrimSpace(string(arguments)) == "null" {
			return
		}
		if string(got["table"]) != `"orders"` || string(got["Sort_by"]) != `{"by":["a"]}` || len(got) != len(sent)+2 {
			t.Fatalf("%q became %q", arguments, out)
		}
		// Like a service that ignores case.
		var service struct{ Table string }
		if json.Unmarshal(out, &service) != nil || service.Table != "orders" {
			t.Fatalf("%q reads as table %q", out, service.Table)
		}
	})
}

func TestToolEntry(t *testing.T) {
	t.Parallel()
	title, description := "Find", "Finds."
	m := toolset.Member{Tool: "lookup", Title: &title, Description: &description, Fixed: fixed("table", `"orders"`)}
	entry := func(schema string) []byte {
		return []byte(`{"name":"lookup","description":"own","inputSchema":` + schema + `,"annotations":{"readOnlyHint":true}}`)
	}
	for schema, want := range map[string]string{
		`{"type":"object","properties":{"key":{"maximum":9007199254740993},"table":{"type":"string"}},"required":["table","key"],"additionalProperties":false}`:                                                               `{"additionalProperties":false,"properties":{"key":{"maximum":9007199254740993}},"required":["key"],"type":"object"}`,
		`{"type":"object","properties":{"table":{}},"required":["table"]}`:                                                                                                                                                    `{"properties":{},"required":[],"type":"object"}`,
		`{"type":"object","properties":{"table":{},"a":{}},"anyOf":[{"required":["table"]},{"required":["a"]}],"if":{"properties":{"table":{"const":"x"}}},"dependentRequired":{"table":["a"],"a":["table"]},"allOf":[true]}`: `{"allOf":[true],"anyOf":[{"required":[]},{"required":["a"]}],"dependentRequired":{"a":[]},"if":{"properties":{}},"properties":{"a":{}},"type":"object"}`,
		`{"type":"object","properties":{"other":{}}}`: "",
		`{"$ref":"#/$defs/x","type":"object"}`:        "",
	} {
		got, err := m.ToolEntry("find", entry(schema))
		if want == "" {
			if err == nil {
				t.Errorf("%s became %s", schema, got)
			}
			continue
		}
		if whole := `{"annotations":{"readOnlyHint":true},"description":"Finds.","inputSchema":` + want + `,"name":"find","title":"Find"}`; err != nil || string(got) != whole {
			t.Errorf("%s\nbecame %s, %v\n   not %s", schema, got, err, whole)
		}
	}
	as := toolset.Member{Tool: "lookup"}
	if got, err := as.ToolEntry("lookup", entry(`{}`)); err != nil || string(got) != string(entry(`{}`)) {
		t.Errorf("%s, %v", got, err)
	}
}
