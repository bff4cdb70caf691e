package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/busbar-mcp/busbar/services/busbar/internal/client"
	"github.com/busbar-mcp/busbar/services/busbar/internal/completion"
)

type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help implements kong's HelpProvider.
func (completionCommand) Help() string {
	return `Examples:
  source <(busbar completion bash)
  busbar completion zsh > "${fpath[1]}/_busbar"
  busbar completion fish > ~/.config/fish/completions/busbar.fish

Commands and flags are completed, and names of tools by asking the edge of BUSBAR_URL.`
}

func (c *completionCommand) Run(out io.Writer) error {
	_, err := io.WriteString(out, completion.Script(c.Shell, "busbar"))
	return err
}

// suggestCommand is what the scripts call.
type suggestCommand struct {
	clientFlags
	Words []string `arg:"" optional:""`
}

// suggestTime bounds asking an edge: a person has pressed a key.
const suggestTime = time.Second

func (c *suggestCommand) Run(ctx context.Context, k *kong.Context, out io.Writer) error {
	names := func(command string) []string {
		if command != "call" && command != "tools" {
			return nil
		}
		ctx, cancel := context.WithTimeout(ctx, suggestTime)
		defer cancel()
		return client.ToolNames(ctx, c.options())
	}
	found := completion.Suggest(k.Model.Node, c.Words, names)
	if len(found) == 0 {
		return nil
	}
	_, err := fmt.Fprintln(out, strings.Join(found, "\n"))
	return err
}
