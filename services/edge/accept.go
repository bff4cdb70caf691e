package edge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/audit"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
	"github.com/busbar-mcp/busbar/services/edge/definition"
	"github.com/busbar-mcp/busbar/services/edge/store"
)

// AcceptTools is the command line that accepts definitions of tools. The tags are read by
// kong.
type AcceptTools struct {
	lookFlags
	Tools []string `arg:"" optional:"" name:"tool" help:"Tools whose definitions are accepted. Without any, and without --all, those that wait are listed."`
	All   bool     `help:"Accept all that is not accepted yet."`
	Yes   bool     `short:"y" help:"Accept without being asked."`
	// Ask asks a person; nil if nobody can be asked.
	Ask func(ctx context.Context, question string) (bool, error) `kong:"-"`
}

// Help implements kong's HelpProvider.
func (AcceptTools) Help() string {
	return `Examples:
  busbar access accept --access access.yaml
  busbar access accept --access access.yaml searchCode
  busbar access accept --access access.yaml --all --yes

With "pin: strict" in the policy file a tool is offered only as an operator has
accepted it. This shows the definition that a service offers now, and how it differs
from the accepted one, and asks. All edges follow within a moment. It needs the secret
of NATS user "operator"; the audit trail records it. The policy file says which
service owns which tool.

Exit status: 0 accepted, or nothing to accept; 1 not accepted.`
}

// methodAccept is the method's name in the audit trail.
const methodAccept = "busbar/tool.accept"

// proposal is a definition that may be accepted.
type proposal struct {
	definition.Definition
	// before is the accepted definition; its digest is empty if nothing is accepted.
	before definition.Definition
}

// Run shows the definitions to be accepted, and accepts them.
func (c *AcceptTools) Run(ctx context.Context, out io.Writer) error {
	conn, live, err := c.look(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer live.Close()
	all, err := c.proposals(ctx, conn, live.Now().Newest())
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, p := range all {
		p.show(&b, len(c.Tools) > 0)
	}
	all, unread := c.readable(all)
	if len(all)+unread == 0 {
		b.WriteString("nothing waits to be accepted\n")
	}
	if _, err := io.WriteString(out, b.String()); err != nil || len(all) == 0 || len(c.Tools) == 0 && !c.All {
		return cmp.Or(err, notShown(unread))
	}
	if !c.Yes {
		if c.Ask == nil {
			return errors.New("nothing is accepted: there is no terminal to ask on; say --yes")
		}
		if yes, err := c.Ask(ctx, fmt.Sprintf("accept %s?", tools(len(all)))); err != nil || !yes {
			return cmp.Or(err, errors.New("nothing is accepted"))
		}
	}
	for _, p := range all {
		err := audit.Operation(ctx, conn, methodAccept, p.Tool, p.Service, func() error { return catalogue.Accept(ctx, conn, p.Definition) })
		if err != nil {
			return fmt.Errorf("accept %s: %w", p.Tool, err)
		}
	}
	_, err = fmt.Fprintf(out, "accepted: %s\n", tools(len(all)))
	return cmp.Or(err, notShown(unread))
}

// readable are the proposals that --all accepts, and the number of those that it does not
// accept: a definition that nobody could read is accepted only by its name.
func (c *AcceptTools) readable(all []proposal) (_ []proposal, unread int) {
	if !c.All || len(c.Tools) > 0 {
		return all, 0
	}
	whole := len(all)
	all = slices.DeleteFunc(all, func(p proposal) bool { return p.Text == nil })
	return all, whole - len(all)
}

func notShown(n int) error {
	if n == 0 {
		return nil
	}
	return fmt.Errorf("%s not accepted: what cannot be shown has to be named", tools(n))
}

func tools(n int) string {
	if n == 1 {
		return "1 tool"
	}
	return fmt.Sprintf("%d tools", n)
}

// proposals are the definitions to be accepted, by tool.
func (c *AcceptTools) proposals(ctx context.Context, conn *bus.Conn, newest map[string]definition.Definition) (all []proposal, err error) {
	names := c.Tools
	if len(names) == 0 {
		names = slices.Sorted(maps.Keys(newest))
	}
	accepted := store.NewDefinitions(conn)
	for _, name := range names {
		now, ok := newest[name]
		if !ok || now.Digest == "" {
			return nil, fmt.Errorf("no service has a tool %q that it may offer; \"busbar services\" lists what there is", fault.Clip(name))
		}
		before, err := accepted.FindAccepted(ctx, name)
		if err != nil && !errors.Is(err, bus.ErrNoKey) {
			return nil, err
		}
		if before.Digest != now.Digest {
			all = append(all, proposal{now, before})
		}
	}
	return all, nil
}

// show prints a proposal: the definition, or its differences from the accepted one.
func (p proposal) show(b *strings.Builder, whole bool) {
	if p.before.Digest == "" {
		fmt.Fprintf(b, "tool %s of service %s: new\n", printable(p.Tool), p.Service)
		switch {
		case p.Text == nil:
			b.WriteString("  the definition is too large to be shown\n")
		case whole:
			text := slices.Clone(p.Text)
			_ = text.Indent(jsontext.WithIndent("  ")) // it is JSON
			fmt.Fprintf(b, "%s\n", printable(string(text)))
		}
		return
	}
	differences := definition.Compare(p.before, p.Definition)
	fmt.Fprintf(b, "tool %s of service %s: %s\n", printable(p.Tool), p.Service, definition.ClassOf(differences))
	for _, d := range differences {
		if d.At == "" {
			b.WriteString("  the definitions are too large to be compared\n")
			continue
		}
		fmt.Fprintf(b, "  %s (%s)\n", printable(string(d.At)), d.Class)
		side(b, "-", d.Before)
		side(b, "+", d.After)
	}
}

// side is one side of a difference.
func side(b *strings.Builder, sign string, v jsontext.Value) {
	if v != nil {
		fmt.Fprintf(b, "    %s %s\n", sign, printable(string(v)))
	}
}

// printable is a service's text without characters that a terminal would obey, or that
// hide text from a reader. It shows the code point of characters that cannot be seen,
// because models read them.
func printable(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r == '\n' || definition.Seen(r) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, "<U+%04X>", r)
		}
	}
	return b.String()
}
