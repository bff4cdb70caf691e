package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/services/busbar/internal/terminal"
	"github.com/busbar-mcp/busbar/services/edge/door/trail"
)

// AccessLimitsOptions are the options of `busbar access limits`.
type AccessLimitsOptions struct {
	AuditOptions
	// As and Tenant say whose limits to ask for; empty for the caller's own.
	As, Tenant string
}

// RunAccessLimits is `busbar access limits`: it asks an edge what is left of the limits of
// a principal and returns the exit code.
func RunAccessLimits(ctx context.Context, o AccessLimitsOptions, stdout, stderr io.Writer) int {
	r := newRun(o.Options, stdout, stderr)
	if o.As == "" && o.Tenant != "" {
		return r.fail(&UsageError{Message: "--tenant needs --as, the principal whose limits to print"}, "")
	}
	if o.As != "" && o.Token == "" {
		return r.fail(&UsageError{Message: "to read the limits of others, run this on the edge's own machine as a user who can read its data directory: " + o.NoToken.Error() + "; name that directory with --data-dir"}, "")
	}
	ctx, stop := r.within(ctx)
	defer stop()
	q, err := r.edge.plain(ctx, http.MethodGet, nil, "access", "limits")
	if err != nil {
		return r.fail(err, "")
	}
	if o.As != "" {
		q.URL.RawQuery = url.Values{"as": {o.As}, "tenant": {o.Tenant}}.Encode()
		q.Header.Set(trail.Header, o.Token)
	}
	body, err := r.edge.ask(ctx, "", q)
	if err != nil {
		return r.fail(err, "")
	}
	if o.JSON {
		return r.printRaw(body, o.Options, ExitOK)
	}
	var said struct {
		Principal string `json:"principal"`
		Tenant    string `json:"tenant"`
		Limits    []struct {
			Of      string `json:"of"`
			Limit   string `json:"limit"`
			Used    int    `json:"used"`
			Left    int    `json:"left"`
			ResetMS int64  `json:"resetMs"`
		} `json:"limits"`
	}
	if err := json.Unmarshal(body, &said); err != nil {
		return r.fail(&ProtocolError{Message: "the answer is malformed", Err: err}, "")
	}
	who := said.Principal
	if said.Tenant != "" {
		who += " of tenant " + said.Tenant
	}
	if len(said.Limits) == 0 {
		return r.print(terminal.SafeText(who)+" has no limits\n", ExitOK)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", who)
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "OF\tLIMIT\tUSED\tLEFT\tALL LEFT IN")
	for _, l := range said.Limits {
		in := "-"
		if l.ResetMS > 0 {
			in = (time.Duration(l.ResetMS) * time.Millisecond).Round(100 * time.Millisecond).String()
		}
		_, _ = fmt.Fprintln(table, strings.Join([]string{l.Of, l.Limit, strconv.Itoa(l.Used), strconv.Itoa(l.Left), in}, "\t"))
	}
	_ = table.Flush() // into memory
	return r.print(terminal.SafeText(b.String()), ExitOK)
}
