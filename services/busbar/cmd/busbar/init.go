package main

import (
	"fmt"
	"io"
	"os"

	"github.com/busbar-mcp/busbar/libs/lifecycle"
	"github.com/busbar-mcp/busbar/services/busbar/internal/scaffold"
)

type initCommand struct {
	Name    string   `arg:"" help:"Name of the service: letters, digits, - and _."`
	Dir     string   `placeholder:"DIR" help:"Directory that is made (default NAME)."`
	Module  string   `placeholder:"PATH" help:"Path of its Go module (default example.com/NAME)."`
	Release string   `placeholder:"VERSION" xor:"modules" help:"Version of Busbar's modules that it requires, such as v1.2.3. By default that of this program, if it is of a release."`
	With    []string `enum:"database" placeholder:"WHAT" help:"What else it has: database."`
	Busbar  string   `placeholder:"DIR" xor:"modules" help:"Clone of Busbar that it takes the modules from instead. By default one that this directory is in or beside, or that this program was built in."`
}

// Help implements kong's HelpProvider.
func (initCommand) Help() string {
	return `Examples:
  busbar init orders --module git.example.com/shop/orders
  busbar init notes --with database

Writes a service with a tool, its test, a Dockerfile and a README into a new
directory: all of it, or nothing. Nothing is overwritten. Its go.mod requires a
release of Busbar's modules, or says where a clone of Busbar is. With a database
it has a table, a migration and tests that restart it, for Postgres and SQLite.

Exit status: 0 written; 1 it could not be written; 2 wrong usage.`
}

func (c *initCommand) Run(out io.Writer) error {
	refuse := func(err error) error {
		fmt.Fprintf(os.Stderr, "busbar: %v; nothing was written\n", err)
		return lifecycle.ExitCode(2)
	}
	clone, release := c.Busbar, c.Release
	if clone == "" && release == "" {
		release = scaffold.Released(lifecycle.Version())
	}
	if clone == "" && release == "" {
		here, err := os.Getwd()
		if err != nil {
			return err
		}
		program, err := os.Executable()
		if err != nil {
			program = here
		}
		if clone = scaffold.Guess(here, program); clone == "" {
			return refuse(fmt.Errorf("this program is of no release, so a service takes Busbar's modules from a clone of it, and %s is neither in one nor beside one; say where one is with --busbar DIR, or which release is required with --release VERSION", here))
		}
	}
	s, err := scaffold.New(scaffold.Options{Name: c.Name, Module: c.Module, Dir: c.Dir, Clone: clone, Release: release, Database: len(c.With) > 0, Taken: append(names(parts()), "audit")})
	if err != nil {
		return refuse(err)
	}
	if err := s.Write(); err != nil {
		return fmt.Errorf("write %s: %w; nothing was written", s.Dir, err)
	}
	from, tidy := "of "+release, "\n  go mod tidy"
	if s.Clone != "" {
		from, tidy = "from "+s.Clone, ""
	}
	call := "_price item=lamp quantity=2"
	if len(c.With) > 0 {
		call = `_add text="one bus"`
	}
	_, err = fmt.Fprintf(out, `%s is there, with Busbar's modules %s. Test and run it, while "busbar dev" runs in another terminal:
  cd %s%s
  go test ./...
  go run . --nats nats://127.0.0.1:4222
and call it from a third one:
  busbar call %s%s
`, s.Dir, from, scaffold.Quote(s.Dir), tidy, c.Name, call)
	return err
}
