package main

import (
	"context"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/busbar-mcp/busbar/services/busbar/internal/terminal"
	"github.com/busbar-mcp/busbar/services/edge"
)

type serviceCommand struct {
	List   servicesListCommand `cmd:"" default:"withargs" help:"List services with their state, age, instances, calls and errors, and names that two services offer."`
	Assign edge.AssignName     `cmd:"" help:"Give a name to another service."`
}

type servicesListCommand struct{ edge.ListServices }

func (c *servicesListCommand) Run(ctx context.Context, out io.Writer) error {
	if term.IsTerminal(int(os.Stdout.Fd())) {
		c.Show = func(titles []string, rows [][]string) error {
			_, err := io.WriteString(out, servicesTable(titles, rows, terminalWidth(), terminal.NewStyle(true, os.Getenv)))
			return err
		}
	}
	return c.ListServices.Run(ctx, out)
}

// Columns of the list of services.
const columnService, columnVersion, columnState, columnErrors, columnOffers = 0, 1, 2, 6, 7

// servicesTable lays the list of services out for a terminal.
func servicesTable(titles []string, rows [][]string, width int, s terminal.Style) string {
	for _, row := range rows {
		for i, cell := range row {
			row[i] = terminal.SafeLine(cell)
		}
	}
	cuts := []terminal.Cut{{Column: columnOffers, Least: 8}, {Column: columnVersion, Least: 9}, {Column: columnState, Least: 9}, {Column: columnService, Least: 12}, {Column: columnOffers, Least: 0}, {Column: columnService, Least: 4}}
	table := terminal.NewTable(titles, rows, width, 60, cuts...)
	var b strings.Builder
	b.WriteString(table.Line(titles, func(_ int, text string) string { return s.Bold(text) }))
	for _, row := range rows {
		b.WriteString(table.Line(row, func(column int, text string) string {
			switch {
			case column == columnState && text != "ready", column == columnErrors && text != "0":
				return s.Yellow(text)
			}
			return text
		}))
	}
	return b.String()
}

// terminalWidth is the width of standard output.
func terminalWidth() int {
	width, _, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil {
		width = 0
	}
	return terminal.Columns(width, os.Getenv)
}
