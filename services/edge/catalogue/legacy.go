package catalogue

import (
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// legacyTool returns a tool's entry for clients before 2026-07-28, and whether it differs. Output
// schemas of these clients describe objects, and any other schema makes the whole list invalid to
// them.
func legacyTool(entry []byte) (legacy []byte, differs bool) {
	var members map[string]jsontext.Value
	var output struct {
		Type jsontext.Value `json:"type,omitzero"`
	}
	if json.Unmarshal(entry, &members) != nil || members["outputSchema"] == nil {
		return entry, false
	}
	if json.Unmarshal(members["outputSchema"], &output) == nil && string(output.Type) == `"object"` {
		return entry, false
	}
	delete(members, "outputSchema")
	legacy, err := json.Marshal(members, json.Deterministic(true))
	if err != nil {
		return entry, false
	}
	return legacy, true
}

// withReplaced returns items with some replaced by others of the same names.
func withReplaced(items, others []item) []item {
	if len(others) == 0 {
		return items
	}
	out := slices.Clone(items)
	for i, it := range out {
		if j := slices.IndexFunc(others, func(o item) bool { return o.name == it.name }); j >= 0 {
			out[i] = others[j]
		}
	}
	return out
}
