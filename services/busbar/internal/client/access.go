package client

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/services/busbar/internal/terminal"
	"github.com/busbar-mcp/busbar/services/edge/access"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// Exit codes of the commands about a policy file.
const (
	// ExitDenied: the policy denies it, or has problems.
	ExitDenied = 1
)

// AccessCheckOptions are the options of `busbar access check`.
type AccessCheckOptions struct {
	Options
	// File is the policy file.
	File string
}

// RunAccessCheck is `busbar access check`: it looks for what is wrong or odd in a
// policy file and returns the exit code.
func RunAccessCheck(ctx context.Context, o AccessCheckOptions, stdout, stderr io.Writer) int {
	r := newRun(o.Options, stdout, stderr)
	asked := ""
	problems, err := access.CheckFile(o.File, func() (known map[access.Kind][]string) {
		known, asked = r.offers(ctx)
		return known
	})
	if err != nil {
		return r.fail(&UsageError{Message: err.Error()}, "")
	}
	if problems == nil {
		problems = []access.Problem{}
	}
	code := ExitOK
	if len(problems) > 0 {
		code = ExitDenied
	}
	if o.JSON {
		return r.printJSON(map[string]any{"file": o.File, "problems": problems, "not_asked": asked}, code)
	}
	var b strings.Builder
	for _, p := range problems {
		if p.Line > 0 {
			fmt.Fprintf(&b, "%s:%d: %s\n", o.File, p.Line, p.Text)
		} else {
			fmt.Fprintf(&b, "%s: %s\n", o.File, p.Text)
		}
	}
	if asked != "" {
		fmt.Fprintf(stderr, "names of tools were not looked at: %s\n", terminal.SafeLine(asked))
	}
	if code == ExitOK {
		fmt.Fprintf(&b, "%s is in order\n", o.File)
	}
	return r.print(terminal.SafeText(b.String()), code)
}

// offers are the tools of the edge, or why it could not be asked.
func (r *run) offers(ctx context.Context) (map[access.Kind][]string, string) {
	ctx, stop := r.within(ctx)
	defer stop()
	tools, err := r.edge.Tools(ctx)
	if err != nil {
		_, message, _ := explain(err, "", nil)
		return nil, message
	}
	return map[access.Kind][]string{access.Tools: toolNames(tools)}, ""
}

// AccessExplainOptions are the options of `busbar access explain`.
type AccessExplainOptions struct {
	Options
	// File is the policy file, Who calls Target with Argument, in the form of
	// CallOptions.
	File             string
	Who              gateway.Principal
	Target, Argument string
}

// RunAccessExplain is `busbar access explain`: it says which rule of a policy file
// decides on a call and returns the exit code.
func RunAccessExplain(ctx context.Context, o AccessExplainOptions, stdin io.Reader, stdout, stderr io.Writer) int {
	r := newRun(o.Options, stdout, stderr)
	text, err := access.Read(o.File)
	if err != nil {
		return r.fail(&UsageError{Message: err.Error()}, "")
	}
	policy, err := access.Parse(text)
	if err != nil {
		return r.fail(&UsageError{Message: err.Error()}, "")
	}
	target, err := access.ParseTarget(o.Target)
	if err != nil {
		return r.fail(&UsageError{Message: err.Error()}, "")
	}
	arguments, err := readArgument(ctx, o.Argument, stdin)
	if err != nil {
		return r.fail(err, "")
	}
	who := o.Who
	who.Tenant = cmp.Or(who.Tenant, policy.File().Principals[who.Name].Tenant)
	if who.Name == "" {
		who = gateway.Anonymous
	}
	for _, issuer := range policy.File().OAuth {
		for _, scope := range who.Scopes {
			who.Roles = append(who.Roles, issuer.Scopes[scope]...)
		}
	}
	e := policy.Explain(who, target, arguments, time.Now())
	code, word := ExitOK, "allowed"
	if !e.Allowed {
		code, word = ExitDenied, "denied"
	}
	if o.JSON {
		return r.printJSON(e, code)
	}
	var b strings.Builder
	for _, step := range e.Steps {
		fmt.Fprintf(&b, "- %s\n", step)
	}
	fmt.Fprintf(&b, "%s: %s\n", word, e.Decided)
	return r.print(terminal.SafeText(b.String()), code)
}

func (r *run) printJSON(v any, code int) int {
	text, err := json.Marshal(v, json.Deterministic(true), jsontext.Multiline(true))
	if err != nil {
		return r.fail(err, "")
	}
	return r.print(string(text)+"\n", code)
}

// RunAccessWho is `busbar access who`: it asks the edge who shows the credentials and
// returns the exit code.
func RunAccessWho(ctx context.Context, o Options, stdout, stderr io.Writer) int {
	r := newRun(o, stdout, stderr)
	ctx, stop := r.within(ctx)
	defer stop()
	body, err := r.edge.get(ctx, "whoAmI")
	if err != nil {
		return r.fail(err, "")
	}
	if o.JSON {
		return r.printRaw(body, o, ExitOK)
	}
	var me struct {
		Principal, Tenant, Credential string
		Roles, Scopes                 []string
		Program                       bool
		Expires                       time.Time
	}
	if err := json.Unmarshal(body, &me, json.MatchCaseInsensitiveNames(true)); err != nil {
		return r.fail(&ProtocolError{Message: "the answer is malformed", Err: err}, "")
	}
	var b strings.Builder
	line := func(label, text string) {
		if text != "" {
			fmt.Fprintf(&b, "%-11s%s\n", label, text)
		}
	}
	line("principal", me.Principal)
	line("tenant", me.Tenant)
	line("roles", cmp.Or(strings.Join(me.Roles, ", "), "none"))
	line("scopes", strings.Join(me.Scopes, " "))
	line("credential", me.Credential)
	if me.Program {
		line("program", "yes: on its own behalf, not for a person")
	}
	if !me.Expires.IsZero() {
		line("expires", me.Expires.Format(time.RFC3339))
	}
	return r.print(terminal.SafeText(b.String()), ExitOK)
}
