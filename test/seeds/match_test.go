package seeds

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// holds says which part of an expected value an answer lacks; nil if it lacks nothing. An answer
// may have more members, and more elements in any order; in texts, … stands for any text.
func holds(got, want any, where string) error {
	switch want := want.(type) {
	case map[string]any:
		members, ok := got.(map[string]any)
		if !ok {
			return fmt.Errorf("%s is %s, want an object", where, show(got))
		}
		for _, name := range slices.Sorted(maps.Keys(want)) {
			v, there := members[name]
			if !there {
				return fmt.Errorf("%s has no %s", where, name)
			}
			if err := holds(v, want[name], where+"/"+name); err != nil {
				return err
			}
		}
		return nil
	case []any:
		elements, ok := got.([]any)
		if !ok {
			return fmt.Errorf("%s is %s, want an array", where, show(got))
		}
		if len(want) == 0 && len(elements) > 0 {
			return fmt.Errorf("%s is not empty", where)
		}
		for _, w := range want {
			var nearest error
			if !slices.ContainsFunc(elements, func(e any) bool {
				err := holds(e, w, where+"/…")
				if err != nil && (nearest == nil || alike(e, w)) {
					nearest = err
				}
				return err == nil
			}) {
				return fmt.Errorf("%s does not hold %s: %w", where, show(w), nearest)
			}
		}
		return nil
	case string:
		if text, ok := got.(string); ok && fits(text, want) {
			return nil
		}
		if want == "…" && got != nil {
			return nil
		}
	default:
		if reflect.DeepEqual(got, want) {
			return nil
		}
	}
	return fmt.Errorf("%s is %s, want %s", where, show(got), show(want))
}

// alike tells of two objects that have the same name, so that a test says what
// differs in the one that was meant.
func alike(got, want any) bool {
	g, ok1 := got.(map[string]any)
	w, ok2 := want.(map[string]any)
	return ok1 && ok2 && (g["name"] == w["name"] && w["name"] != nil || g["uri"] == w["uri"] && w["uri"] != nil)
}

// fits matches a text with … for any part.
func fits(text, pattern string) bool {
	parts := strings.Split(pattern, "…")
	if len(parts) == 1 {
		return text == pattern
	}
	rest, ok := strings.CutPrefix(text, parts[0])
	for _, p := range parts[1 : len(parts)-1] {
		i := strings.Index(rest, p)
		if i < 0 {
			return false
		}
		rest = rest[i+len(p):]
	}
	return ok && strings.HasSuffix(rest, parts[len(parts)-1])
}

func show(v any) string {
	b, _ := json.Marshal(v)
	if len(b) > 1500 {
		b = append(b[:1500], "…"...)
	}
	return string(b)
}

func checkHolds(t *testing.T, got []byte, want string) {
	t.Helper()
	var g, w any
	if err := json.Unmarshal(got, &g); err != nil {
		t.Fatalf("%v: %.400s", err, got)
	}
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatalf("%v: %s", err, want)
	}
	if err := holds(g, w, ""); err != nil {
		t.Errorf("%v\nin %s", err, show(g))
	}
}

// A matcher that lets everything pass would make every test of this package green.
func TestHolds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		got, want string
		ok        bool
	}{
		{`{"a":1,"b":2}`, `{"a":1}`, true}, {`{"b":2}`, `{"a":1}`, false}, {`{"a":2}`, `{"a":1}`, false}, {`{"a":{}}`, `{"a":{"b":1}}`, false},
		{`[1,2,3]`, `[3,1]`, true}, {`[1,2]`, `[3]`, false}, {`[1]`, `[]`, false}, {`[]`, `[]`, true}, {`{}`, `[]`, false},
		{`"abcd"`, `"a…d"`, true}, {`"abcd"`, `"…b…"`, true}, {`"abcd"`, `"a…c"`, false}, {`"abcd"`, `"…x…"`, false}, {`"abcd"`, `"abc"`, false},
		{`null`, `"…"`, false}, {`7`, `"…"`, true}, {`true`, `false`, false},
	} {
		var g, w any
		_, _ = json.Unmarshal([]byte(c.got), &g), json.Unmarshal([]byte(c.want), &w)
		if err := holds(g, w, ""); (err == nil) != c.ok {
			t.Errorf("%s holds %s: %v", c.got, c.want, err)
		}
	}
}
