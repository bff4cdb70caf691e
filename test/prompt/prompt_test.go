package prompt

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/prompt"
)

const greet = `"name":"greet","description":"Greets","arguments":[{"name":"who","required":true},{"name":"times","type":"integer","default":"1"},{"name":"mood","type":"enum","values":["warm","cool"]}],` +
	`"messages":[{"role":"user","content":[{"type":"text","text":"%s {{who}} x{{times}}"}]}]`

func greeting(word string) string { return fmt.Sprintf(greet, word) }

// The prompts that come with Busbar, for modern and legacy clients.
func TestStarters(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		w.instance(t)
		url := w.edge(t)
		for _, version := range []string{modern, legacy} {
			t.Run(version, func(t *testing.T) {
				t.Parallel()
				c := connect(t, url, version)
				var r *mcp.ListPromptsResult
				if err := bustest.Heard(t, func() (err error) {
					r, err = c.ListPrompts(t.Context(), nil)
					return err
				}); err != nil {
					t.Fatal(err)
				}
				names := []string{}
				for _, p := range r.Prompts {
					names = append(names, p.Name)
				}
				for _, want := range []string{"bug_report", "code_review", "commit_message", "explain_code", "incident_postmortem", "make_plan", "summarize_document", "translate_text", "write_tests"} {
					if !slices.Contains(names, want) {
						t.Errorf("%s is not in %q", want, names)
					}
				}
				code := "func f() { fmt.Println(`{{x}}`) }"
				for lang, word := range map[string]string{"": "Review the following go code", "pl-PL": "Oceń poniższy kod (go)", "ru": "Проведи ревью этого кода (go)", "zh-CN": "评审下面的 go 代码"} {
					got, err := c.get(t, "code_review", map[string]string{"language": "go", "code": code, "lang": lang, "focus": "security"})
					if err != nil || len(got) != 1 || !strings.HasPrefix(got[0], "user: ") || !strings.Contains(got[0], word) || !strings.Contains(got[0], "```go\n"+code+"\n```") {
						t.Errorf("%q: %q %v", lang, got, err)
					}
				}
			})
		}
	})
}

// Errors of prompts/get name the argument.
func TestArguments(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		w.instance(t)
		c := connect(t, w.edge(t), modern)
		for says, given := range map[string]map[string]string{
			"params.arguments.code is required":                {"language": "go"},
			"params.arguments.focus must be one of everything": {"code": "x", "focus": "beauty"},
			"params.arguments.extra is not an argument":        {"code": "x", "extra": "x"},
			"with these arguments the prompt is longer than":   {"code": strings.Repeat("x", 300<<10)},
		} {
			_, err := c.get(t, "code_review", given)
			if wire := refused(t, err, -32602); !strings.Contains(wire.Message, says) {
				t.Errorf("%s; want %s", wire.Message, says)
			}
		}
		_, err := c.get(t, "nobody", nil)
		refused(t, err, -32602)
		complete := func(argument, typed string) []string {
			var r *mcp.CompleteResult
			if err := bustest.Heard(t, func() (err error) {
				r, err = c.Complete(t.Context(), &mcp.CompleteParams{
					Ref: &mcp.CompleteReference{Type: "ref/prompt", Name: "code_review"}, Argument: mcp.CompleteParamsArgument{Name: argument, Value: typed},
				})
				return err
			}); err != nil {
				t.Fatal(err)
			}
			return r.Completion.Values
		}
		for _, q := range []struct {
			argument, typed string
			want            []string
		}{
			{"focus", "se", []string{"security"}}, {"language", "ty", []string{"typescript"}}, {"lang", "", []string{"en", "pl", "ru", "zh"}}, {"code", "x", []string{}},
		} {
			if got := complete(q.argument, q.typed); !slices.Equal(got, q.want) {
				t.Errorf("%s %q: %q, want %q", q.argument, q.typed, got, q.want)
			}
		}
	})
}

// A prompt made at one instance is served by the others at once, and modern and legacy clients at
// any edge hear of it.
func TestChanges(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		w.instance(t)
		w.instance(t)
		first, second := w.edge(t), w.edge(t)
		clients := []*client{connect(t, first, modern), connect(t, first, legacy), connect(t, second, modern), connect(t, second, legacy)}
		c := clients[0]
		heard := func(what string) {
			t.Helper()
			for i, c := range clients {
				receive(t, fmt.Sprintf("client %d hears of %s", i, what), c.changed)
			}
		}
		// all requires that every instance says so: each call may reach another.
		all := func(what string, ok func() bool) {
			t.Helper()
			bustest.Eventually(t, what, func() bool {
				for range 24 {
					if !ok() {
						return false
					}
				}
				return true
			})
		}
		if made := c.do(t, "create_prompt", "{"+greeting("Hello")+"}"); made["version"] != 1.0 || made["author"] != "anonymous" {
			t.Errorf("%v", made)
		}
		heard("the prompt")
		for range 24 {
			got, err := clients[3].get(t, "greet", map[string]string{"who": "Ada", "times": "02"})
			if err != nil || !slices.Equal(got, []string{"user: Hello Ada x2"}) {
				t.Fatalf("%q %v", got, err)
			}
		}
		all("every instance lists it", func() bool {
			return strings.Contains(fmt.Sprint(c.do(t, "list_prompts", "{}")), "greet")
		})
		c.do(t, "update_prompt", `{"version":1,`+greeting("Good day")+"}")
		all("every instance serves the update", func() bool {
			got, err := c.get(t, "greet", map[string]string{"who": "Ada"})
			return err == nil && slices.Equal(got, []string{"user: Good day Ada x1"})
		})
		c.do(t, "update_prompt", `{"version":2,"title":"Greeting",`+greeting("Good day")+"}")
		heard("another title")
		c.do(t, "delete_prompt", `{"name":"greet","version":3}`)
		heard("the deletion")
		all("no instance serves it", func() bool {
			_, err := c.get(t, "greet", map[string]string{"who": "Ada"})
			var wire *jsonrpc.Error
			return errors.As(err, &wire) && wire.Code == -32602
		})
	})
}

// A prompt is there, at every edge and instance, as soon as the call that made it is answered.
func TestNewPromptIsThereAtOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		w.instance(t)
		w.instance(t)
		here, there := connect(t, w.edge(t), modern), connect(t, w.edge(t), legacy)
		for i := range 20 {
			name := fmt.Sprintf("new-%d", i)
			here.do(t, "create_prompt", "{"+strings.Replace(greeting("Hello"), `"greet"`, `"`+name+`"`, 1)+"}")
			for _, c := range []*client{here, there} {
				if got, err := c.get(t, name, map[string]string{"who": "Ada"}); err != nil || !slices.Equal(got, []string{"user: Hello Ada x1"}) {
					t.Fatalf("%s: %q %v", name, got, err)
				}
			}
		}
		_, err := there.get(t, "none", nil)
		refused(t, err, -32602)
	})
}

func TestVersions(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		stop := w.instance(t)
		url := w.edge(t)
		c := connect(t, url, modern)
		c.do(t, "create_prompt", "{"+greeting("one")+"}")
		c.do(t, "update_prompt", `{"version":1,`+greeting("two")+"}")
		// Somebody else was faster.
		_, err := c.call(t, "update_prompt", `{"version":1,`+greeting("late")+"}", "")
		if wire := refused(t, err, 1409); !strings.Contains(string(wire.Data), `"version":2`) || !strings.Contains(string(wire.Data), `"reason":"conflict"`) {
			t.Errorf("%s %s", wire.Message, wire.Data)
		}
		_, err = c.call(t, "create_prompt", "{"+greeting("again")+"}", "")
		refused(t, err, 1409)
		_, err = c.call(t, "delete_prompt", `{"name":"greet","version":1}`, "")
		refused(t, err, 1409)
		_, err = c.call(t, "get_prompt", `{"name":"nobody"}`, "")
		refused(t, err, -32602)
		// The model is told that a text is not a template.
		_, err = c.call(t, "update_prompt", `{"version":2,"name":"greet","messages":[{"role":"user","content":[{"type":"text","text":"{{who}}"}]}]}`, "")
		if err == nil || !strings.Contains(err.Error(), `messages[0].content[0]: line 1: {{who}}: there is no argument "who"`) {
			t.Errorf("%v", err)
		}
		_, err = c.call(t, "create_prompt", `{"name":"evil","messages":[{"role":"system","content":[{"type":"text","text":"x"}]}]}`, "")
		if err == nil || !strings.Contains(err.Error(), "/messages/0/role") {
			t.Errorf("%v", err)
		}
		text := func(version string) string {
			return fmt.Sprint(c.do(t, "get_prompt", `{"name":"greet"`+version+`}`)["messages"])
		}
		check := func() {
			t.Helper()
			if one, now := text(`,"version":1`), text(""); !strings.Contains(one, "one {{who}}") || !strings.Contains(now, "two {{who}}") {
				t.Errorf("%s, %s", one, now)
			}
			all := c.do(t, "list_prompt_versions", `{"name":"greet"}`)["versions"].([]any)
			if len(all) != 2 || all[0].(map[string]any)["version"] != 2.0 || all[1].(map[string]any)["deleted"] != false {
				t.Errorf("%v", all)
			}
		}
		check()
		// A deletion of a built-in prompt, like everything else, outlives a restart.
		c.do(t, "delete_prompt", `{"name":"make_plan","version":1}`)
		stop()
		w.instance(t)
		c = connect(t, w.edge(t), legacy)
		check()
		got, err := c.get(t, "greet", map[string]string{"who": "Ada"})
		if err != nil || !slices.Equal(got, []string{"user: two Ada x1"}) {
			t.Errorf("%q %v", got, err)
		}
		_, err = c.get(t, "make_plan", map[string]string{"task": "x"})
		refused(t, err, -32602)
	})
}

// A call that is repeated with its key has one effect.
func TestRepetition(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		w.instance(t)
		w.instance(t)
		c := connect(t, w.edge(t), modern)
		for range 5 {
			made, err := c.call(t, "create_prompt", "{"+greeting("one")+"}", "a key \x00")
			if err != nil || made["version"] != 1.0 {
				t.Fatalf("%v %v", made, err)
			}
		}
		_, err := c.call(t, "create_prompt", "{"+greeting("other")+"}", "a key \x00")
		refused(t, err, 1409)
		for range 5 {
			made, err := c.call(t, "update_prompt", `{"version":1,`+greeting("two")+"}", "another")
			if err != nil || made["version"] != 2.0 {
				t.Fatalf("%v %v", made, err)
			}
		}
	})
}

// Without the database prompts are served as before, and changes are refused.
func TestDatabaseAway(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		s := w.build(t)
		running, err := s.Start(t.Context(), bustest.Connect(t, w.bus))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = running.Stop(context.Background()) })
		c := connect(t, w.edge(t), modern)
		s.Close()
		if got, err := c.get(t, "code_review", map[string]string{"code": "x"}); err != nil || len(got) != 1 {
			t.Errorf("%q %v", got, err)
		}
		_, err = c.CallTool(t.Context(), &mcp.CallToolParams{Name: "create_prompt", Arguments: json.RawMessage("{" + greeting("x") + "}")})
		if wire := refused(t, err, 1503); !strings.Contains(string(wire.Data), `"executed":"no"`) {
			t.Errorf("%s %s", wire.Message, wire.Data)
		}
	})
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for says, cfg := range map[string]service.DataEnv{
		"BUSBAR_DATABASE_URL or BUSBAR_DATA_DIR": {},
		"not one of Postgres":                    {DatabaseURL: "mysql://u:secret@127.0.0.1/x"},
		"is not one: use postgres://":            {DatabaseURL: "postgres://u:secret@[::1"},
	} {
		if _, err := prompt.New(t.Context(), prompt.Env{DataEnv: cfg}); err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%v; want %s", err, says)
		}
	}
}
