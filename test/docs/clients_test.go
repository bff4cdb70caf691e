package docs

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// entry is a server as clients are told of it.
type entry struct {
	Type    string            `json:"type"`
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"`
}

// config is a client's file.
type config struct {
	Servers map[string]entry `json:"mcpServers"`
	VSCode  map[string]entry `json:"servers"`
	Inputs  []struct {
		Type        string `json:"type"`
		ID          string `json:"id"`
		Description string `json:"description"`
		Password    bool   `json:"password"`
	} `json:"inputs"`
}

// entries returns the entries of a file, after a check that the client of that heading takes them.
func (c config) entries(t *testing.T, client string) map[string]entry {
	t.Helper()
	all := c.Servers
	if client == "VS Code" {
		all = c.VSCode
	}
	if len(all) == 0 || len(c.Servers)+len(c.VSCode) != len(all) || client != "VS Code" && len(c.Inputs) > 0 {
		t.Errorf("%s takes no such file", client)
	}
	for name, e := range all {
		if (e.URL == "") == (e.Command == "") || e.URL == "" && len(e.Headers) > 0 || e.URL != "" && len(e.Args) > 0 {
			t.Errorf("%s: %s is neither a program nor a URL", client, name)
		}
		want := map[string]string{"Claude Code": "http", "VS Code": "http"}[client]
		if e.URL == "" {
			want = map[string]string{"VS Code": "stdio"}[client]
		}
		if e.Type != want {
			t.Errorf("%s: %s has type %q, want %q", client, name, e.Type, want)
		}
		if e.URL != "" && client == "Claude Desktop" {
			t.Errorf("%s: %s: that file takes no URL", client, name)
		}
		for _, value := range e.Headers {
			for _, m := range regexp.MustCompile(`\$\{input:([^}]*)\}`).FindAllStringSubmatch(value, -1) {
				asked := false
				for _, input := range c.Inputs {
					asked = asked || input.ID == m[1] && input.Type == "promptString" && input.Description != "" && input.Password
				}
				if !asked {
					t.Errorf("%s: nobody is asked for %s", client, m[1])
				}
			}
		}
	}
	return all
}

// TestClients starts each program that docs/guides/clients.md puts into a client, asks each
// URL with its headers, and wants their tools. Paths, ports and the key are replaced.
func TestClients(t *testing.T) {
	t.Parallel()
	home := build(t)
	busbar, policy, key := filepath.Join(home, "bin", "busbar"), filepath.Join(home, "access.yaml"), ""
	if err := os.WriteFile(policy, []byte(only(blocks(t, "docs/guides/clients.md"), "yaml")[0]), 0o600); err != nil {
		t.Fatal(err)
	}
	// The same person starts the clients and "busbar dev": secrets are found where it keeps them.
	env := append(os.Environ(), "XDG_STATE_HOME="+t.TempDir())
	dev := exec.Command(busbar, "dev", "--listen", "127.0.0.1:0", "--nats-listen", "127.0.0.1:0", "--access", policy, "--services", "text")
	dev.Env = env
	at := regexp.MustCompile(`mcp=http://(\S+)/mcp nats=nats://(\S+) `).FindStringSubmatch(start(t, dev))
	if at == nil {
		t.Fatal("it does not say where it listens")
	}
	create := exec.CommandContext(t.Context(), busbar, "key", "create", "desktop", "--principal", "ada", "--nats", "nats://"+at[2])
	create.Env = env
	out, err := create.CombinedOutput()
	if key = regexp.MustCompile(`bb_\w+`).FindString(string(out)); err != nil || key == "" {
		t.Fatalf("%v %s", err, out)
	}
	here := strings.NewReplacer("127.0.0.1:8000", at[1], "127.0.0.1:4222", at[2], "/path/to/access.yaml", policy,
		"${BUSBAR_TOKEN}", key, "${env:BUSBAR_TOKEN}", key, "${input:busbar-key}", key, "$BUSBAR_TOKEN", key)

	var programs, urls int
	try := func(client, name string, e entry) {
		if e.URL != "" {
			urls++
			t.Run(client+"/"+name, func(t *testing.T) { asked(t, here.Replace(e.URL), here.Replace(e.Headers["Authorization"])) })
			return
		}
		programs++
		if e.Command != "/path/to/busbar" {
			t.Errorf("%s: %s starts %s", client, name, e.Command)
		}
		args := slices.Clone(e.Args)
		for i := range args {
			args[i] = here.Replace(args[i])
		}
		t.Run(client+"/"+name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), busbar, args...)
			cmd.Env = env
			spoken(t, cmd)
		})
	}
	page, err := os.ReadFile(filepath.Join(root, "docs/guides/clients.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, section := range strings.Split(string(page), "\n## ")[1:] {
		client, text, _ := strings.Cut(section, "\n")
		if client == "Offer few tools" { // TestToolsets runs its examples
			continue
		}
		for _, m := range regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$").FindAllStringSubmatch(text, -1) {
			switch m[1] {
			case "json":
				var file config
				if err := json.Unmarshal([]byte(m[2]), &file); err != nil {
					t.Errorf("%s: %v", client, err)
				}
				for name, e := range file.entries(t, client) {
					try(client, name, e)
				}
			case "sh":
				for line := range strings.Lines(strings.TrimSpace(m[2])) {
					name, e := commandLine(t, line)
					try(client, name, e)
				}
			}
		}
	}
	if programs < 8 || urls < 5 {
		t.Errorf("%d programs and %d URLs", programs, urls)
	}
}

// commandLine reads "claude mcp add" and the Inspector's command as a shell would.
func commandLine(t *testing.T, line string) (name string, e entry) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "bash", "-c", `BUSBAR_TOKEN='$BUSBAR_TOKEN'; claude() { printf 'claude\0'; printf '%s\0' "$@"; }; npx() { printf 'npx\0'; printf '%s\0' "$@"; }; `+line).Output()
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	words := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	if len(words) > 2 && words[0] == "npx" && words[1] == "@modelcontextprotocol/inspector" {
		return "npx", entry{Command: words[2], Args: words[3:]}
	}
	if len(words) < 5 || strings.Join(words[:3], " ") != "claude mcp add" {
		t.Fatalf("%s: nobody reads that", line)
	}
	transport, words := "stdio", words[3:]
	// As the client reads it, --header takes all words up to the next option.
	if i := slices.Index(words, "--header"); i >= 0 && i+2 == len(words) {
		header, value, _ := strings.Cut(words[i+1], ": ")
		e.Headers, words = map[string]string{header: value}, words[:i]
	}
	if len(words) > 2 && words[0] == "--transport" {
		transport, words = words[1], words[2:]
	}
	if name = words[0]; transport == "http" && len(words) == 2 {
		e.URL = words[1]
	} else if transport == "stdio" && len(words) > 2 && words[1] == "--" {
		e.Command, e.Args = words[2], words[3:]
	} else {
		t.Errorf("%s: neither a URL nor a program", line)
	}
	return name, e
}

// spoken says what clients of the desktop say first, and wants tools.
func spoken(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	cmd.Stdin = strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"client","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/list"}
`)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if out, err := cmd.Output(); err != nil || !bytes.Contains(out, []byte(`"name":"analyzeText"`)) {
		t.Errorf("%v\n%s\n%s", err, out, errs.String())
	}
}

// asked lists the tools at a URL, with a header if there is one.
func asked(t *testing.T, url, authorization string) {
	t.Helper()
	ask := func(authorization string) string {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(
			`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set("MCP-Protocol-Version", "2026-07-28")
		r.Header.Set("Mcp-Method", "tools/list")
		if authorization != "" {
			r.Header.Set("Authorization", authorization)
		}
		return answerTo(t, r)
	}
	if answer := ask(authorization); !strings.Contains(answer, `"name":"analyzeText"`) {
		t.Errorf("%s: %s", url, answer)
	}
	if authorization != "" {
		if answer := ask(authorization + "x"); strings.Contains(answer, `"tools"`) {
			t.Errorf("%s looks at no key: %s", url, answer)
		}
	}
}
