package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
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

// suggestCommand is what the scripts call. Flags are part of what is completed, so it
// has none of its own.
type suggestCommand struct {
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
		edge := clientFlags{
			URL: cmp.Or(os.Getenv("BUSBAR_URL"), client.DefaultURL), Token: os.Getenv("BUSBAR_TOKEN"),
			CA: os.Getenv("BUSBAR_CA"), Cert: os.Getenv("BUSBAR_CERT"), Key: os.Getenv("BUSBAR_KEY"),
		}
		return client.ToolNames(ctx, edge.options())
	}
	found := completion.Suggest(k.Model.Node, c.Words, names)
	if len(found) == 0 {
		return nil
	}
	_, err := fmt.Fprintln(out, strings.Join(found, "\n"))
	return err
}
