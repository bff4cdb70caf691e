package completion

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

type grammar struct {
	Loud  bool   `help:"Speak up."`
	Level string `enum:"low,high" default:"low" short:"l"`
	Call  struct {
		URL  string `name:"url"`
		Name string `arg:""`
		More string `arg:"" optional:""`
	} `cmd:""`
	Audit struct {
		Ls     struct{} `cmd:""`
		Verify struct{} `cmd:""`
	} `cmd:""`
	Shell struct {
		Name string `arg:"" enum:"bash,zsh"`
	} `cmd:""`
	Hidden struct{} `cmd:"" hidden:""`
}

func TestSuggest(t *testing.T) {
	t.Parallel()
	k, err := kong.New(&grammar{}, kong.NoDefaultHelp())
	if err != nil {
		t.Fatal(err)
	}
	names := func(command string) []string {
		if command != "call" {
			return nil
		}
		return []string{"orders_place", "orders_$(rm -rf ~)", "weather"}
	}
	for line, want := range map[string]string{
		"":                       "audit call shell",
		"a":                      "audit",
		"audit ":                 "ls verify",
		"audit ls ":              "",
		"call ":                  "orders_place weather",
		"call or":                "orders_place",
		"call --url x ":          "orders_place weather",
		"call --url=x --loud w":  "weather",
		"call orders_place ":     "",
		"call --":                "--level --loud --url",
		"call --url ":            "",
		"--level ":               "high low",
		"-l h":                   "high",
		"shell ":                 "bash zsh",
		"shell b":                "bash",
		"nonsense a b ":          "audit call shell",
		"call orders_place --lo": "--loud",
	} {
		if got := strings.Join(Suggest(k.Model.Node, strings.Split(line, " "), names), " "); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
	if got := Suggest(k.Model.Node, nil, nil); !slices.Equal(got, []string{"audit", "call", "shell"}) {
		t.Errorf("%q", got)
	}
}

// Where a shell is installed, its script completes what the program says.
func TestScripts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program := "#!/bin/sh\nshift\nfor w; do last=$w; done\necho \"$last-one\"; echo two\n"
	if err := os.WriteFile(filepath.Join(dir, "demo"), []byte(program), 0o700); err != nil {
		t.Fatal(err)
	}
	for shell, c := range map[string]struct{ after, want string }{
		"bash": {`COMP_WORDS=(demo call or); COMP_CWORD=2; _demo; printf '%s\n' "${COMPREPLY[@]}"`, "or-one\ntwo\n"},
		"fish": {`complete -C 'demo call or'`, "or-one\n"},
	} {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			at, err := exec.LookPath(shell)
			if err != nil {
				t.Skip(err)
			}
			cmd := exec.Command(at, "-c", Script(shell, "demo")+c.after)
			cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
			out, err := cmd.Output()
			if err != nil || string(out) != c.want {
				t.Errorf("%v: %q", err, out)
			}
		})
	}
	if Script("zsh", "demo") == "" || Script("tcsh", "demo") != "" {
		t.Error("scripts are for bash, zsh and fish")
	}
}
