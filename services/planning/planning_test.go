package planning_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/libs/service/servicetest"
	"github.com/busbar-mcp/busbar/services/planning"
)

// client calls the service over the test's own bus.
type client struct {
	t      *testing.T
	caller *bus.Caller
}

func start(t *testing.T) *client {
	t.Helper()
	conn := bustest.Connect(t, bustest.Server(t))
	servicetest.Join(t, conn, servicetest.Build(t, planning.New, service.Env{}))
	caller := bustest.Caller(t, conn)
	return &client{t, caller}
}

func (c *client) do(tool string, arguments any, more func(*busv1.Request)) (*busv1.Frame, error) {
	c.t.Helper()
	data, err := json.Marshal(arguments)
	if err != nil {
		c.t.Fatal(err)
	}
	req := &busv1.Request{Method: mcp.MethodToolsCall, Name: tool, Arguments: data}
	if more != nil {
		more(req)
	}
	return c.caller.Call(c.t.Context(), "planning", req, nil)
}

// call reads the structured result of a tool into out.
func (c *client) call(tool string, arguments, out any) []byte {
	c.t.Helper()
	frame, err := c.do(tool, arguments, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	return c.structured(frame, out)
}

func (c *client) structured(frame *busv1.Frame, out any) []byte {
	c.t.Helper()
	var result struct {
		Structured jsontext.Value `json:"structuredContent"`
		IsError    bool           `json:"isError"`
	}
	raw := frame.GetResult().GetJson()
	if err := json.Unmarshal(raw, &result); err != nil || result.IsError || result.Structured == nil {
		c.t.Fatalf("%v: %s", err, frame)
	}
	if err := json.Unmarshal(result.Structured, out); err != nil {
		c.t.Fatal(err)
	}
	return raw
}

type arguments map[string]any

// The call of the seed document: its parameters are accepted, and its members of the result exist.
func TestSeed(t *testing.T) {
	t.Parallel()
	c := start(t)
	var out struct {
		Plan []map[string]any `json:"plan"`
	}
	c.call("generatePlan", arguments{"task": "Zadanie do zaplanowania", "requirements": []string{"Wymaganie 1", "Wymaganie 2"}}, &out)
	if len(out.Plan) < 3 {
		t.Fatalf("%d steps", len(out.Plan))
	}
	for i, s := range out.Plan {
		if s["id"] != float64(i+1) || s["action"] == "" || s["description"] == "" {
			t.Errorf("step %d: %v", i+1, s)
		}
	}
}

func TestGeneratePlan(t *testing.T) {
	t.Parallel()
	c := start(t)
	for name, tt := range map[string]struct {
		in             arguments
		language, kind string
		says           []string
	}{
		"English": {arguments{"task": "Fix the crash when a user without a photo opens the profile page", "requirements": []string{"Add a regression test"}}, "en", "fix",
			[]string{"Reproduce the crash when a user without a photo", "Find the cause", "Add a regression test"}},
		"Polish": {arguments{"task": "Kup drukarkę do biura", "requirements": []string{"Koszt strony poniżej 10 groszy", "Druk dwustronny"}}, "pl", "buy",
			[]string{"kryteria", "„Druk dwustronny”", "Kup drukarkę do biura"}},
		"Russian": {arguments{"task": "Перенести сайт с хостинга А на сервер Б", "requirements": []string{"Простой не более 10 минут"}}, "ru", "migrate",
			[]string{"зависит от нынешнего решения (хостинга А)", "≤ 10 минут", "Перенести сайт"}},
		"Chinese": {arguments{"task": "写一篇关于城市噪音的文章", "requirements": []string{"不超过2000字"}}, "zh", "write",
			[]string{"提纲", "≤ 2000字", "写一篇关于城市噪音的文章"}},
		"traditional Chinese": {arguments{"task": "修復登入頁面的錯誤"}, "zh", "fix", []string{"復現", "測試"}},
		"another language":    {arguments{"task": "Réparer la porte du garage"}, "en", "general", []string{"Réparer la porte du garage"}},
		"a language asked for": {arguments{"task": "Fix the login page", "language": "pl"}, "pl", "fix",
			[]string{"Fix the login page", "test regresji"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &client{t, c.caller}
			var out planning.GenerateOut
			raw := c.call("generatePlan", tt.in, &out)
			if out.Language != tt.language || out.Kind != tt.kind {
				t.Errorf("language %s, kind %s, evidence %v", out.Language, out.Kind, out.Evidence)
			}
			var all strings.Builder
			for _, s := range out.Plan {
				all.WriteString(s.Description + " | " + s.Check + "\n")
			}
			for _, want := range tt.says {
				if !strings.Contains(all.String(), want) {
					t.Errorf("nothing says %q:\n%s", want, all.String())
				}
			}
			for _, r := range out.Requirements {
				if len(r.Steps) == 0 {
					t.Errorf("%s is not covered", r.ID)
				}
			}
			if again := c.call("generatePlan", tt.in, &out); !bytes.Equal(raw, again) {
				t.Error("a second call gives other bytes")
			}
			// The other tools accept a generated plan.
			var ids []string
			for _, r := range out.Requirements {
				ids = append(ids, r.ID)
			}
			var valid planning.ValidateOut
			if c.call("validatePlan", arguments{"plan": out.Plan, "requirements": ids}, &valid); !valid.Valid {
				t.Errorf("%+v", valid)
			}
			done := []int{}
			for range out.Plan {
				var next planning.NextOut
				c.call("nextSteps", arguments{"plan": out.Plan, "done": done}, &next)
				if len(next.Ready) == 0 || next.Complete {
					t.Fatalf("done %v, nothing is ready", done)
				}
				done = append(done, next.Ready[0].ID)
			}
			var next planning.NextOut
			if c.call("nextSteps", arguments{"plan": out.Plan, "done": done}, &next); !next.Complete {
				t.Errorf("%+v", next)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	c := start(t)
	steps := []arguments{{"id": 1, "action": "a", "description": "b", "dependsOn": []int{2}}, {"id": 2, "action": "a", "description": "b", "dependsOn": []int{1}}}
	for name, tt := range map[string]struct {
		tool string
		in   arguments
		want string
	}{
		"an empty task":         {"generatePlan", arguments{"task": " \u202e\n"}, "the task is empty"},
		"punctuation":           {"generatePlan", arguments{"task": "?!"}, "the task is empty"},
		"an empty requirement":  {"generatePlan", arguments{"task": "x", "requirements": []string{"a", " "}}, "requirement 2 is empty"},
		"too much text":         {"generatePlan", arguments{"task": "x", "requirements": []string{strings.Repeat("a", 64<<10)}}, "task and requirements have 65537 bytes"},
		"too many requirements": {"generatePlan", arguments{"task": "x", "requirements": strings.Split(strings.Repeat("a ", 100)+"a", " ")}, "there are 101 requirements"},
		"no steps":              {"validatePlan", arguments{"plan": []arguments{}}, "the plan has no steps"},
		"too many steps":        {"nextSteps", arguments{"plan": make([]planning.PlanStep, 501)}, "the plan has 501 steps"},
		"a circle":              {"nextSteps", arguments{"plan": steps}, "the plan has an error: steps wait for each other"},
		"an unknown step done":  {"nextSteps", arguments{"plan": steps[:0:0], "done": []int{7}}, "the plan has no steps"},
		"done, not in the plan": {"nextSteps", arguments{"plan": []arguments{{"id": 1, "action": "a", "description": "b"}}, "done": []int{7}}, "done contains step 7"},
	} {
		frame, err := c.do(tt.tool, tt.in, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if r := frame.GetResult(); !r.GetIsError() || !strings.Contains(string(r.GetJson()), tt.want) {
			t.Errorf("%s: got %s", name, r.GetJson())
		}
	}
	var out planning.ValidateOut
	c.call("validatePlan", arguments{"plan": steps, "requirements": []string{"R1"}}, &out)
	if out.Valid || len(out.Problems) != 2 || out.Problems[0].Code != "not_covered" || out.Problems[1].Code != "cycle" {
		t.Errorf("%+v", out)
	}
}

// refinable is a task whose requirements are T1 and R1.
var refinable = arguments{"task": "Buy a printer", "requirements": []string{"Prints on both sides"}, "refine": true}

func TestRefinement(t *testing.T) {
	t.Parallel()
	c := start(t)
	step := func(id int, covers, deps string) string {
		return fmt.Sprintf(`{"id":%d,"action":"comparePrinters","description":"Compare the printers of the shop in town","covers":%s,"dependsOn":%s,"check":"The prices are noted"}`, id, covers, deps)
	}
	whole := func(steps ...string) string { return `{"plan":[` + strings.Join(steps, ",") + `]}` }
	valid := whole(step(20, `["R1"]`, `[10]`), step(10, `["T1"]`, `[]`))
	for name, tt := range map[string]struct{ answer, note string }{
		"a valid plan":              {valid, ""},
		"in a code fence":           {"```json\n" + valid + "\n```", ""},
		"no JSON":                   {"Sure! Here is your plan.", "it is not the requested JSON"},
		"words around the JSON":     {"Here: " + valid, "it is not the requested JSON"},
		"unknown members":           {`{"plan":[],"thoughts":"x"}`, "it is not the requested JSON"},
		"a member twice":            {`{"plan":[],"plan":[]}`, "it is not the requested JSON"},
		"no steps":                  {whole(), "it has 0 steps"},
		"too many steps":            {whole(strings.Split(strings.TrimSuffix(strings.Repeat(step(1, `["T1"]`, `[]`)+"\n", 151), "\n"), "\n")...), "it has 151 steps"},
		"too large":                 {strings.Repeat(" ", 257<<10) + valid, "it is too large"},
		"a requirement left out":    {whole(step(1, `["T1"]`, `[]`)), "not_covered"},
		"a requirement invented":    {whole(step(1, `["T1","R1","R7"]`, `[]`)), "unknown_requirement"},
		"a step for nothing":        {whole(step(1, `["T1","R1"]`, `[]`), step(2, `[]`, `[]`)), "step 2 covers no requirement"},
		"a circle":                  {whole(step(1, `["T1","R1"]`, `[2]`), step(2, `["T1"]`, `[1]`)), "cycle"},
		"an unknown dependency":     {whole(step(1, `["T1","R1"]`, `[5]`)), "unknown_dependency"},
		"an id twice":               {whole(step(1, `["T1","R1"]`, `[]`), step(1, `["T1"]`, `[]`)), "duplicate_id"},
		"an id below one":           {whole(step(0, `["T1","R1"]`, `[]`)), "the id or action of step 1"},
		"an action with spaces":     {strings.ReplaceAll(valid, "comparePrinters", "Compare printers"), "the id or action of step 1"},
		"an empty text":             {strings.ReplaceAll(valid, "The prices are noted", " "), "a text of step 1 is empty"},
		"a text that is too long":   {strings.ReplaceAll(valid, "The prices are noted", strings.Repeat("x", 1001)), "a text of step 1 is empty or too long"},
		"another language":          {strings.ReplaceAll(valid, "Compare the printers of the shop in town", "Сравнить принтеры в магазинах города"), "it is in another language"},
		"an answer without content": {"", "it is not the requested JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &client{t, c.caller}
			var plain, out planning.GenerateOut
			c.call("generatePlan", arguments{"task": refinable["task"], "requirements": refinable["requirements"]}, &plain)
			able := func(req *busv1.Request) { req.Client = &busv1.Client{Capabilities: []byte(`{"sampling":{}}`)} }
			frame, err := c.do("generatePlan", refinable, able)
			if err != nil || frame.GetInputRequired() == nil {
				t.Fatalf("%v, %v", frame, err)
			}
			if asked := string(frame.GetInputRequired().GetInputRequests()); !strings.Contains(asked, "sampling/createMessage") || !strings.Contains(asked, "Prints on both sides") {
				t.Errorf("asked %s", asked)
			}
			response, err := json.Marshal(arguments{"refine": arguments{"role": "assistant", "model": "fake", "content": arguments{"type": "text", "text": tt.answer}}})
			if err != nil {
				t.Fatal(err)
			}
			frame, err = c.do("generatePlan", refinable, func(req *busv1.Request) {
				able(req)
				req.InputResponses, req.RequestState = response, frame.GetInputRequired().GetRequestState()
			})
			if err != nil {
				t.Fatal(err)
			}
			c.structured(frame, &out)
			if tt.note != "" {
				if out.Refined || !strings.Contains(out.Note, tt.note) {
					t.Errorf("refined %v, note %q", out.Refined, out.Note)
				}
				if fmt.Sprint(out.Plan, out.Phases) != fmt.Sprint(plain.Plan, plain.Phases) {
					t.Error("the plan is not the plain one")
				}
				return
			}
			want := "[{1 comparePrinters Compare the printers of the shop in town [T1] [] 1 The prices are noted} {2 comparePrinters Compare the printers of the shop in town [R1] [1] 2 The prices are noted}]"
			if got := fmt.Sprint(out.Plan); !out.Refined || out.Note != "" || got != want {
				t.Errorf("refined %v, note %q, got %s", out.Refined, out.Note, got)
			}
			if got := fmt.Sprint(out.Requirements); !strings.Contains(got, "[1]") || !strings.Contains(got, "[2]") || len(out.Phases) != 2 {
				t.Errorf("requirements %s, phases %v", got, out.Phases)
			}
		})
	}
}

func TestRefinementNeedsSampling(t *testing.T) {
	t.Parallel()
	c := start(t)
	var out planning.GenerateOut
	c.call("generatePlan", refinable, &out)
	if out.Refined || !strings.Contains(out.Note, "the client offers no sampling") || len(out.Plan) == 0 {
		t.Errorf("refined %v, note %q", out.Refined, out.Note)
	}
	t.Run("an answer that is none", func(t *testing.T) {
		_, err := c.do("generatePlan", refinable, func(req *busv1.Request) {
			req.Client = &busv1.Client{Capabilities: []byte(`{"sampling":{}}`)}
			req.InputResponses = []byte(`{"refine":{"model":7}}`)
		})
		if !fault.Is(err, fault.InvalidParams) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a plan too long for a model", func(t *testing.T) {
		in := arguments{"task": "Build a web shop", "refine": true}
		var requirements []string
		for i := range 100 {
			requirements = append(requirements, fmt.Sprintf("Page %d with a form", i))
		}
		in["requirements"] = requirements
		frame, err := c.do("generatePlan", in, func(req *busv1.Request) {
			req.Client = &busv1.Client{Capabilities: []byte(`{"sampling":{}}`)}
		})
		if err != nil {
			t.Fatal(err)
		}
		if c.structured(frame, &out); out.Refined || !strings.Contains(out.Note, "at most 100 are given to a model") {
			t.Errorf("refined %v, note %q", out.Refined, out.Note)
		}
	})
}
