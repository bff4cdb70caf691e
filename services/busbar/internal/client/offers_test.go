package client

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// run runs a command of the package and returns what it did.
func (w *world) run(command func(o Options, stdin io.Reader, stdout, stderr io.Writer) int, o Options, stdin string) outcome {
	base := w.options()
	base.JSON, base.Terminal, base.ErrTerminal, base.InTerminal, base.Quiet = o.JSON, o.Terminal, o.ErrTerminal, o.InTerminal, o.Quiet
	var out, errs bytes.Buffer
	code := command(base, strings.NewReader(stdin), &out, &errs)
	return outcome{code, out.String(), errs.String()}
}

// Offers other than tools are listed, read and filled in; text of services
// cannot steer a terminal.
func TestOffers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	type command = func(Options, io.Reader, io.Writer, io.Writer) int
	resources := func(o Options, _ io.Reader, out, errs io.Writer) int { return RunResources(ctx, o, out, errs) }
	prompts := func(o Options, _ io.Reader, out, errs io.Writer) int { return RunPrompts(ctx, o, out, errs) }
	read := func(uri string) command {
		return func(o Options, in io.Reader, out, errs io.Writer) int {
			return RunRead(ctx, ReadOptions{o, uri}, in, out, errs)
		}
	}
	prompt := func(arguments ...string) command {
		return func(o Options, in io.Reader, out, errs io.Writer) int {
			return RunPrompt(ctx, PromptOptions{o, "greet", arguments}, in, out, errs)
		}
	}
	nothing := func(o Options, in io.Reader, out, errs io.Writer) int {
		return RunPrompt(ctx, PromptOptions{o, "nothing", nil}, in, out, errs)
	}
	complete := func(of, argument string) command {
		return func(o Options, _ io.Reader, out, errs io.Writer) int {
			return RunComplete(ctx, CompleteOptions{o, of, argument, "A"}, out, errs)
		}
	}
	for name, c := range map[string]struct {
		run    command
		o      Options
		code   int
		stdout string
		stderr []string
	}{
		"resources":                {resources, Options{}, ExitOK, "svc://logo\tlogo (image/png)\nsvc://notes/{id}\tnotes\n", nil},
		"resources on a terminal":  {resources, Options{Terminal: true}, ExitOK, "\x1b[1msvc://logo\x1b[0m        logo (image/png)\n\x1b[1msvc://notes/{id}\x1b[0m  notes\n", nil},
		"prompts":                  {prompts, Options{}, ExitOK, "greet\twho=…  Greets.\n", nil},
		"prompts as JSON":          {prompts, Options{JSON: true}, ExitOK, `[{"name":"greet","description":"Greets.","arguments":[{"name":"who","required":true}]}]` + "\n", nil},
		"bytes":                    {read("svc://logo"), Options{}, ExitOK, "\x89PNG", nil},
		"bytes on a terminal":      {read("svc://logo"), Options{Terminal: true}, ExitOK, "[svc://logo (image/png), 4 bytes; write it to a file with >]\n", nil},
		"text":                     {read("svc://notes/7"), Options{}, ExitOK, "note\u009b 7", nil},
		"text on a terminal":       {read("svc://notes/7"), Options{Terminal: true}, ExitOK, "note\\u009b 7\n", nil},
		"no such resource":         {read("svc://nothing"), Options{}, ExitRefused, "", []string{"unknown_resource", "next: see `busbar resources` for what there is\n"}},
		"prompt":                   {prompt("who=Anna=B"), Options{Terminal: true}, ExitOK, "\x1b[2muser:\x1b[0m\nHello\\u009b Anna=B\n", nil},
		"prompt with an object":    {prompt(`{"who":"Anna"}`), Options{}, ExitOK, "user:\nHello\u009b Anna\n", nil},
		"prompt with half of one":  {prompt(`{"who":`), Options{}, ExitUsage, "", []string{"the arguments are not JSON"}},
		"prompt without":           {prompt(), Options{}, ExitRefused, "", []string{"invalid_params", "next: see `busbar prompts` for the arguments that there are\n"}},
		"no such prompt":           {nothing, Options{}, ExitRefused, "", []string{"unknown_prompt", "next: see `busbar prompts` for what there is\n"}},
		"prompt, no value":         {prompt("Anna"), Options{}, ExitUsage, "", []string{`"Anna": write name=value`}},
		"completion":               {complete("greet", "who"), Options{}, ExitOK, "Anna\nAda\\u009b\n", nil},
		"completion of a template": {complete("svc://notes/{id}", "id"), Options{}, ExitOK, "", []string{"no suggestions for argument id"}},
		"completion of nothing":    {complete("nothing", "who"), Options{}, ExitRefused, "", []string{"error:"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w.run(c.run, c.o, "").check(t, c.code, c.stdout, c.stderr...)
		})
	}
}

// On a terminal, the user is asked the questions of a tool field by field.
func TestCallElicits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	person := Options{InTerminal: true, ErrTerminal: true}
	order := func(o Options, in io.Reader, out, errs io.Writer) int {
		return RunCall(t.Context(), CallOptions{Options: o, Name: "order"}, in, out, errs)
	}
	for name, c := range map[string]struct {
		o             Options
		typed, stdout string
		code          int
		stderr        string
	}{
		"everything":         {person, "coffee\n3\ny\n sweet \n", "accept {coffee sweet 3 true}\n", ExitOK, "What\\u009b will it be?"},
		"what is needed":     {person, "tea\n\n\n\n", "accept {tea  1 false}\n", ExitOK, "  What (tea, coffee): "},
		"mistakes":           {person, "\nbeer\ntea\nmany\n2\nperhaps\nno\n\n", "accept {tea  2 false}\n", ExitOK, `"beer" is not one of tea, coffee`},
		"gone":               {person, "tea\n", "cancel {  0 false}\n", ExitOK, "  cups (integer) [1]: \n"},
		"nobody to be asked": {Options{}, "tea\n", "", ExitRefused, "next: call it on a terminal: it asks you something\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := w.run(order, c.o, c.typed)
			if got.code != c.code || got.stdout != c.stdout || !strings.Contains(got.stderr, c.stderr) {
				t.Errorf("%+v", got)
			}
		})
	}
}

// The limits of a field are checked while the field can still be typed again.
func TestCallElicitsWithinBounds(t *testing.T) {
	t.Parallel()
	got := newWorld(t).run(func(o Options, in io.Reader, out, errs io.Writer) int {
		return RunCall(t.Context(), CallOptions{Options: o, Name: "garnish"}, in, out, errs)
	}, Options{InTerminal: true, ErrTerminal: true}, "10\n9\nab\nabc\nsugar\nhoney, lemon, honey\nhoney, lemon\n")
	got.check(t, ExitOK, "accept {abc [honey lemon] 9}\n",
		"maximum: got 10, want 9\n", "minLength", "with (several with commas between: honey, lemon): ", `"sugar" is not one of honey, lemon`, "maxItems")
}

// Where two tools stand in for the list, arguments have the types of the tool's schema all
// the same, and all of a tool is shown.
func TestCallOfToolThatIsNotListed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, url := range []string{w.url, w.url + "?tools=search"} {
		call := func(name string, arguments ...string) outcome {
			return w.run(func(o Options, in io.Reader, out, errs io.Writer) int {
				o.URL = url
				return RunCall(t.Context(), CallOptions{Options: o, Name: name, Arguments: arguments}, in, out, errs)
			}, Options{}, "")
		}
		call("long", "text=3").check(t, ExitOK, "done 3\n")
		if got := call("describe_tools", "names=long"); got.code != ExitOK || !strings.Contains(got.stdout, `{"name":"long"`) {
			t.Errorf("%+v", got)
		}
		call("search_tools", "query=nothing at all", "limit=x").check(t, ExitUsage, "", `parameter limit: "x" is not`)
		call("lang", "text=3").check(t, ExitRefused, "", "unknown_tool")
		shown := w.run(func(o Options, _ io.Reader, out, errs io.Writer) int {
			o.URL = url
			return RunTools(t.Context(), ToolsOptions{Options: o, Name: "long"}, out, errs)
		}, Options{}, "")
		if shown.code != ExitOK || !strings.Contains(shown.stdout, "takes\n    text   string\n") {
			t.Errorf("%+v", shown)
		}
	}
}

// A call that has to be a task is one, and is waited for unless nobody wants to.
func TestCallTask(t *testing.T) {
	t.Parallel()
	w, begun := newWorld(t), filepath.Join(t.TempDir(), "tasks")
	call := func(text string, detach bool) outcome {
		return w.run(func(o Options, in io.Reader, out, errs io.Writer) int {
			return RunCall(t.Context(), CallOptions{Options: o, Name: "long", Arguments: []string{"text=" + text}, Detach: detach, Begun: begun}, in, out, errs)
		}, Options{}, "")
	}
	get := func(id string, wait bool) outcome {
		return w.run(func(o Options, in io.Reader, out, errs io.Writer) int {
			return RunTaskGet(t.Context(), TaskOptions{Options: o, ID: id, Wait: wait}, in, out, errs)
		}, Options{}, "")
	}
	list := func(o Options) outcome {
		return w.run(func(o Options, _ io.Reader, out, errs io.Writer) int {
			return RunTaskList(t.Context(), TaskOptions{Options: o, Begun: begun}, out, errs)
		}, o, "")
	}
	list(Options{}).check(t, ExitOK, "", "no tasks that were begun here")
	call("x", false).check(t, ExitOK, "done x\n")
	detached := call("y", true)
	id := strings.TrimSpace(detached.stdout)
	if detached.code != ExitOK || !regexp.MustCompile(`^\S{20,}$`).MatchString(id) || !strings.Contains(detached.stderr, "busbar task get "+id) {
		t.Fatalf("%+v", detached)
	}
	get(id, true).check(t, ExitOK, "done y\n")
	get(id, false).check(t, ExitOK, "done y\n")
	if all := strings.Split(list(Options{}).stdout, "\n"); len(all) != 3 || !strings.HasPrefix(all[1], id+"\tcompleted\tlong\t") {
		t.Errorf("the newest is last: %q", all)
	}
	if got := list(Options{JSON: true}); !jsontext.Value(got.stdout).IsValid() || !strings.Contains(got.stdout, id) {
		t.Errorf("%+v", got)
	}
	// Of another edge, and of one that has forgotten it, no task is shown.
	for name, url := range map[string]string{"elsewhere": "http://127.0.0.1:1/mcp", "expired": w.url} {
		note := `{"url":"` + url + `","tool":"long","begun":"2026-01-01T00:00:00Z"}`
		if err := os.WriteFile(filepath.Join(begun, name), []byte(note), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := list(Options{}); got.code != ExitOK || strings.Count(got.stdout, "\n") != 2 {
		t.Errorf("%+v", got)
	}
	get("nothing", true).check(t, ExitRefused, "", "unknown_task", "prints the id of each task")
	failed := call("fail", false)
	if failed.code != ExitToolError || !strings.Contains(failed.stderr, "no luck") {
		t.Errorf("%+v", failed)
	}
	cancelled := w.run(func(o Options, _ io.Reader, out, errs io.Writer) int {
		return RunTaskCancel(t.Context(), TaskOptions{Options: o, ID: id}, out, errs)
	}, Options{}, "")
	if cancelled.code != ExitOK || !strings.Contains(cancelled.stderr, "asked to end") {
		t.Errorf("%+v", cancelled)
	}
}

// A user who waits at a terminal is told the reason.
func TestWaitingIsSaid(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	o := w.options()
	o.ErrTerminal, o.Quiet = true, 10*time.Millisecond
	var out bytes.Buffer
	said := &watched{until: "waiting for " + w.url + ", ", found: interrupt}
	if code := RunCall(ctx, CallOptions{Options: o, Name: "watch"}, nil, &out, said); code != ExitInterrupted || !strings.HasSuffix(said.String(), eraseLine+"interrupted\n") {
		t.Errorf("%d %q", code, said.String())
	}
}
