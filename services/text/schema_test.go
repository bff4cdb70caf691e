package text

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/services/text/internal/tidy"
)

// property is the part of a JSON Schema that has enums.
type property struct {
	Enum  []string
	Items struct{ Enum []string }
}

func properties(t *testing.T, schema []byte) map[string]property {
	t.Helper()
	var s struct{ Properties map[string]property }
	if err := json.Unmarshal(schema, &s, json.MatchCaseInsensitiveNames(true)); err != nil {
		t.Fatal(err)
	}
	return s.Properties
}

// TestOperations compares the behaviour of text_processor with its schemas: its operations, their
// options, and the values of the options.
func TestOperations(t *testing.T) {
	t.Parallel()
	in, out := properties(t, processorInput), properties(t, processorOutput)
	var names []string
	for _, o := range operations {
		names = append(names, o.name)
	}
	for where, got := range map[string][]string{"the input schema": in["operation"].Enum, "the output schema": out["operation"].Enum} {
		if !slices.Equal(got, names) {
			t.Errorf("%s has the operations %q, the code %q", where, got, names)
		}
	}
	var formats []string
	for _, o := range tidy.Options {
		formats = append(formats, string(o))
	}
	if !slices.Equal(in["format_options"].Items.Enum, formats) {
		t.Errorf("the schema has the format_options %q, the code %q", in["format_options"].Items.Enum, formats)
	}
	// Each value of an option fills only the field of its name; all values together fill the same
	// fields as no option.
	for operation, option := range map[string]string{"statistics": "stat_options", "extract_entities": "entity_types"} {
		whole := filled(t, ProcessorIn{Operation: operation, Text: seedContacts})
		if values := slices.Sorted(slices.Values(in[option].Items.Enum)); !slices.Equal(whole, values) {
			t.Errorf("%s fills %q, and %s takes %q", operation, whole, option, values)
		}
		for _, value := range in[option].Items.Enum {
			ask := ProcessorIn{Operation: operation, Text: seedContacts, StatOptions: []string{value}, EntityTypes: []string{value}}
			if got := filled(t, ask); !slices.Equal(got, []string{value}) {
				t.Errorf("%s %s fills %q", operation, value, got)
			}
		}
	}
	// A message that lists the operations lists all of them.
	if _, err := processor(t.Context(), nil, ProcessorIn{Operation: "none"}); err == nil || !strings.HasSuffix(err.Error(), strings.Join(names, ", ")) {
		t.Errorf("an unknown operation: %v", err)
	}
}

// filled are the names of the fields that an operation fills, besides its own.
func filled(t *testing.T, in ProcessorIn) (names []string) {
	t.Helper()
	out, err := processor(t.Context(), nil, in)
	if err != nil {
		t.Fatal(err)
	}
	v := reflect.ValueOf(out)
	for _, f := range reflect.VisibleFields(v.Type()) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "operation" && !v.FieldByIndex(f.Index).IsZero() {
			names = append(names, name)
		}
	}
	return slices.Sorted(slices.Values(names))
}
