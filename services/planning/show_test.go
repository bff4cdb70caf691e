package planning

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"
)

func TestShow(t *testing.T) {
	data, _ := os.ReadFile("../../test/eval/planning/testdata/tasks.json")
	var all []struct {
		Name, Task   string
		Requirements []string
	}
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if p := os.Getenv("ONLY"); p != "" && p != a.Name {
			continue
		}
		out, err := generate(t.Context(), nil, GenerateIn{Task: a.Task, Requirements: a.Requirements})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println("=====", a.Name, out.Language, out.Kind, out.Evidence)
		for _, r := range out.Requirements {
			fmt.Println("  ", r.ID, r.Type, r.Text, r.Steps)
		}
		for _, s := range out.Plan {
			fmt.Println(s.Phase, "|", s.ID, s.Action, "|", s.Description, "|", s.Covers, s.DependsOn, "|", s.Check)
		}
		for _, p := range out.Phases {
			fmt.Print(p, " ")
		}
		fmt.Println()
	}
}
