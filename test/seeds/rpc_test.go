package seeds

import (
	"encoding/json"
	"testing"
)

// row is one request of a seed, as the seed has it, and the required contents of its answer.
// docs/evidence/seeds.md uses the same name.
type row struct {
	name, request string
	// want is the required content of the whole answer; empty for a notification.
	want string
	// notes are notifications that come before the answer.
	notes []string
}

// speak sends rows over a door, in their order.
func speak(t *testing.T, d door, rows []row) {
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			answer, notes := d.send(t, r.request)
			if r.want == "" {
				return
			}
			if id := idOf([]byte(r.request)); id != "" && idOf(answer) != id && idOf(answer) != "" {
				t.Errorf("the id came back as %s, not %s", idOf(answer), id)
			}
			checkHolds(t, answer, r.want)
			for _, want := range r.notes {
				checkNoted(t, notes, want)
			}
		})
	}
}

func checkNoted(t *testing.T, notes [][]byte, want string) {
	t.Helper()
	var w any
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatal(err)
	}
	for _, n := range notes {
		var g any
		if json.Unmarshal(n, &g) == nil && holds(g, w, "") == nil {
			return
		}
	}
	t.Errorf("not notified: %s\nbut: %s", want, notes)
}
