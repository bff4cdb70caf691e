package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/busbar/internal/terminal"
	"github.com/go-json-experiment/json"
)

// ApproveOptions are the options of `busbar approve`.
type ApproveOptions struct {
	Options
	// ID of the approval; empty to list what waits.
	ID string
	// Deny refuses the call for good instead.
	Deny bool
	// Yes agrees without a question.
	Yes bool
}

// approvalID is what an approval's id looks like, at any edge.
var approvalID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`)

// RunApprove is `busbar approve`: it shows a call that is held and, if it is
// agreed to, has it carried out. It returns the exit code.
func RunApprove(ctx context.Context, o ApproveOptions, stdin io.Reader, stdout, stderr io.Writer) int {
	r := newRun(o.Options, stdout, stderr)
	switch {
	case o.Deny && o.Yes:
		return r.fail(&UsageError{Message: "--deny and --yes exclude each other"}, "")
	case o.ID == "" && (o.Deny || o.Yes):
		return r.fail(&UsageError{Message: "which call? See `busbar approve` for what waits"}, "")
	case o.ID == "":
		return r.listHeld(ctx, o.Options)
	case !approvalID.MatchString(o.ID):
		return r.fail(&UsageError{Message: fmt.Sprintf("%q is not the id of an approval; see `busbar approve` for what waits", o.ID)}, "")
	}
	finding, stop := r.within(ctx)
	defer stop()
	held, err := r.edge.FindHeld(finding, o.ID)
	if err != nil {
		return r.fail(err, "")
	}
	r.showHeld(held)
	if !o.Deny && !o.Yes {
		if !o.asks() {
			return r.fail(&UsageError{Message: "nobody can be asked here: say --yes to let it run, or --deny"}, "")
		}
		yes, err := Confirm(ctx, "run it?", stdin, stderr)
		switch {
		case err != nil:
			return r.fail(err, "")
		case !yes:
			fmt.Fprintln(stderr, "not run; it waits until it expires, or is denied with --deny")
			return ExitRefused
		}
	}
	deciding, stop := r.within(ctx)
	defer stop()
	res, err := r.edge.Approve(deciding, held.Approval, !o.Deny)
	switch {
	case err != nil && o.Deny:
		return r.fail(err, "")
	case err != nil:
		return r.fail(err, held.Name)
	case o.Deny:
		fmt.Fprintf(stderr, "denied: %s will not run\n", terminal.SafeLine(held.Name))
		return ExitOK
	}
	return r.show(res, held.Name, o.Options)
}

// asks reports whether a person is there to be asked.
func (o *Options) asks() bool { return o.InTerminal && o.ErrTerminal }

// byOthers is the approver of a call that its caller may not agree to.
const byOthers = "others"

// heldBy is the call that failed because it is held; nil if it did not.
func heldBy(err error) *Held {
	var e *RPCError
	if !errors.As(err, &e) || e.Reason != fault.ApprovalRequired {
		return nil
	}
	held := &Held{}
	if decode(e.Data, held) != nil || !approvalID.MatchString(held.Approval) {
		return nil
	}
	return held
}

// approveCommand is what to run to decide.
func (r *run) approveCommand(id string) string {
	command := "busbar approve " + id
	if at := r.edge.shownURL(); at != DefaultURL+"/mcp" {
		command += " --url " + at
	}
	return command
}

// Confirm asks who sits at a terminal, and reports whether the answer is yes.
func Confirm(ctx context.Context, question string, stdin io.Reader, stderr io.Writer) (bool, error) {
	fmt.Fprint(stderr, question+" [y/N] ")
	line, err := readAll(ctx, &firstLine{in: stdin})
	if !strings.HasSuffix(string(line), "\n") {
		fmt.Fprintln(stderr)
	}
	answer := strings.ToLower(strings.TrimSpace(string(line)))
	return answer == "y" || answer == "yes", err
}

// firstLine reads a line of in, and no more.
type firstLine struct {
	in    io.Reader
	ended bool
}

func (l *firstLine) Read(p []byte) (int, error) {
	if l.ended || len(p) == 0 {
		return 0, io.EOF
	}
	n, err := l.in.Read(p[:1])
	l.ended = n == 1 && p[0] == '\n'
	return n, err
}

// showHeld says on stderr what a held call is.
func (r *run) showHeld(held *Held) {
	by := ""
	if held.Principal != "" && held.Principal != "anonymous" {
		by = " by " + terminal.SafeLine(held.Principal)
	}
	fmt.Fprintf(r.stderr, "%s needs your approval for this call%s:\n", r.errStyle.Bold(named(held)), by)
	shown := terminal.SafeText(held.Shown)
	if shown == "" { // an edge of an earlier release
		shown = "{}"
		if len(held.Parameters) > 0 {
			shown = terminal.SafeJSON(indented(held.Parameters))
		}
	}
	fmt.Fprintln(r.stderr, "  "+strings.ReplaceAll(shown, "\n", "\n  "))
	if !held.Expires.IsZero() {
		fmt.Fprintf(r.stderr, "  %s %s\n", r.errStyle.Dim("expires:"), left(held.Expires))
	}
}

// named is a tool's title and name.
func named(held *Held) string {
	if held.Title == "" || held.Title == held.Name {
		return terminal.SafeLine(held.Name)
	}
	return terminal.SafeLine(held.Title) + " (tool " + terminal.SafeLine(held.Name) + ")"
}

// left is how long there is until a time.
func left(until time.Time) string { return "in " + time.Until(until).Round(time.Second).String() }

// listHeld lists the calls that wait.
func (r *run) listHeld(ctx context.Context, o Options) int {
	ctx, stop := r.within(ctx)
	defer stop()
	all, err := r.edge.Held(ctx)
	if err != nil {
		return r.fail(err, "")
	}
	if o.JSON {
		raw, err := json.Marshal(all)
		if err != nil {
			return r.fail(err, "")
		}
		return r.printRaw(raw, o, ExitOK)
	}
	if len(all) == 0 {
		fmt.Fprintln(r.stderr, "nothing waits for your approval")
		return ExitOK
	}
	var b strings.Builder
	if o.Terminal {
		fmt.Fprintln(&b, r.style.Bold(fmt.Sprintf("%-26s  %-10s  %-16s  %s", "APPROVAL", "EXPIRES", "CALLER", "TOOL")))
	}
	for _, held := range all {
		if o.Terminal {
			fmt.Fprintf(&b, "%-26s  %-10s  %-16s  %s\n", terminal.SafeLine(held.Approval), left(held.Expires), terminal.SafeLine(held.Principal), terminal.SafeLine(held.Name))
		} else {
			fmt.Fprintf(&b, "%s\t%s\t%s\t%s\n", terminal.SafeLine(held.Approval), held.Expires.Format(time.RFC3339), terminal.SafeLine(held.Name), terminal.SafeLine(held.Principal))
		}
	}
	return r.print(b.String(), ExitOK)
}
