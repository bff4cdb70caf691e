package main

import (
	"context"
	"io"
	"os"
	"path/filepath"

	"github.com/busbar-mcp/busbar/libs/lifecycle"
	"github.com/busbar-mcp/busbar/services/busbar/internal/client"
)

type resourcesCommand struct{ clientFlags }

// Help implements kong's HelpProvider.
func (resourcesCommand) Help() string { return `Example: busbar resources` }

func (c *resourcesCommand) Run(ctx context.Context, out io.Writer) error {
	return exit(client.RunResources(ctx, c.options(), out, os.Stderr))
}

type readCommand struct {
	clientFlags
	URI given `arg:"" name:"uri" help:"URI of the resource."`
}

// Help implements kong's HelpProvider.
func (readCommand) Help() string {
	return `Example: busbar read weather://logs > logs.txt

If standard output is not a terminal, bytes are written unchanged. Exit status as
for "busbar call".`
}

func (c *readCommand) Run(ctx context.Context, out io.Writer) error {
	return exit(client.RunRead(ctx, client.ReadOptions{Options: c.options(), URI: string(c.URI)}, os.Stdin, out, os.Stderr))
}

type promptsCommand struct {
	clientFlags
	Name      string   `arg:"" optional:"" help:"Name of a prompt, to fill it in; without one, all are listed."`
	Arguments []string `arg:"" optional:"" name:"name=value" help:"Arguments, or one JSON object; the value @FILE is the content of a file."`
}

// Help implements kong's HelpProvider.
func (promptsCommand) Help() string {
	return `Examples:
  busbar prompts
  busbar prompts weather_analysis location=Sacramento

Exit status as for "busbar call".`
}

func (c *promptsCommand) Run(ctx context.Context, out io.Writer) error {
	if c.Name == "" {
		return exit(client.RunPrompts(ctx, c.options(), out, os.Stderr))
	}
	o := client.PromptOptions{Options: c.options(), Name: c.Name, Arguments: c.Arguments}
	return exit(client.RunPrompt(ctx, o, os.Stdin, out, os.Stderr))
}

type completeCommand struct {
	clientFlags
	Of       given  `arg:"" help:"Name of a prompt, or a resource template."`
	Argument given  `arg:"" help:"Name of the argument."`
	Typed    string `arg:"" optional:"" help:"The beginning of its value."`
}

// Help implements kong's HelpProvider.
func (completeCommand) Help() string {
	return `Example: busbar complete 'custom://config/{config_name}' config_name a`
}

func (c *completeCommand) Run(ctx context.Context, out io.Writer) error {
	o := client.CompleteOptions{Options: c.options(), Of: string(c.Of), Argument: string(c.Argument), Typed: c.Typed}
	return exit(client.RunComplete(ctx, o, out, os.Stderr))
}

// taskCommands are for calls that go on without their requests.
type taskCommands struct {
	Ls     taskLsCommand     `cmd:"" help:"List the tasks that were begun here."`
	Get    taskGetCommand    `cmd:"" help:"Print the state of a task, or its result."`
	Cancel taskCancelCommand `cmd:"" help:"Cancel a task."`
}

// begunTasks is where the command line keeps which tasks it began; empty where there is no
// place for that.
func begunTasks() string {
	dir, err := lifecycle.DataDir("cli")
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "tasks")
}

type taskLsCommand struct{ clientFlags }

// Help implements kong's HelpProvider.
func (taskLsCommand) Help() string {
	return `Example: busbar task ls

MCP has no list of tasks. These are the last hundred that "busbar call" began for
this user on this machine, if the edge still knows them.`
}

func (c *taskLsCommand) Run(ctx context.Context, out io.Writer) error {
	return exit(client.RunTaskList(ctx, client.TaskOptions{Options: c.options(), Begun: begunTasks()}, out, os.Stderr))
}

type taskGetCommand struct {
	clientFlags
	ID   given `arg:"" help:"ID of the task, as \"busbar call --detach\" prints it."`
	Wait bool  `help:"Wait for its end."`
}

// Help implements kong's HelpProvider.
func (taskGetCommand) Help() string {
	return `Examples:
  busbar task get K3J5V6Q2ZL4WBN7TYXC3M5R6DA
  busbar task get --wait $(busbar call --detach orders_ship id=1)

Exit status: 0 it runs, or is completed; 1 it failed; 3 it was cancelled;
other as for "busbar call".`
}

func (c *taskGetCommand) Run(ctx context.Context, out io.Writer) error {
	o := client.TaskOptions{Options: c.options(), ID: string(c.ID), Wait: c.Wait}
	return exit(client.RunTaskGet(ctx, o, os.Stdin, out, os.Stderr))
}

type taskCancelCommand struct {
	clientFlags
	ID given `arg:"" help:"ID of the task."`
}

// Help implements kong's HelpProvider.
func (taskCancelCommand) Help() string {
	return `Example: busbar task cancel K3J5V6Q2ZL4WBN7TYXC3M5R6DA`
}

func (c *taskCancelCommand) Run(ctx context.Context, out io.Writer) error {
	return exit(client.RunTaskCancel(ctx, client.TaskOptions{Options: c.options(), ID: string(c.ID)}, out, os.Stderr))
}
