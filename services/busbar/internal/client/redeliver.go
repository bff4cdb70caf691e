package client

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/services/audit"
	"github.com/busbar-mcp/busbar/services/busbar/internal/terminal"
)

// RunAuditRedeliver is `busbar audit redeliver`: it asks until every event that was put aside was tried
// once. Events that are left are ExitToolError.
func RunAuditRedeliver(ctx context.Context, o AuditOptions, stdout, stderr io.Writer) int {
	run := newRun(o.Options, stdout, stderr)
	ctx, stop := run.within(ctx)
	defer stop()
	all := audit.Redelivery{Left: []audit.LeftEvent{}}
	for parameters := (url.Values{}); ; parameters.Set("after", all.Next) {
		raw, err := run.edge.audit(ctx, o.Token, redeliver, parameters)
		if err != nil {
			if all.Written+all.Known > 0 {
				fmt.Fprintf(stderr, "%d events were written before it failed; repeat the command for the others\n", all.Written)
			}
			return run.failAudit(o, err)
		}
		var some audit.Redelivery
		if err := decode(raw, &some); err != nil {
			return run.fail(&ProtocolError{Message: "the answer is malformed", Err: err}, "")
		}
		all.Written, all.Known, all.Left, all.Next = all.Written+some.Written, all.Known+some.Known, append(all.Left, some.Left...), some.Next
		if all.Next == "" {
			break
		}
	}
	code := ExitOK
	if len(all.Left) > 0 {
		code = ExitToolError
	}
	if o.JSON {
		raw, err := json.Marshal(all)
		if err != nil {
			return run.fail(err, "")
		}
		return run.printRaw(raw, o.Options, code)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d events written to the trail, %d were there already, %d left in stream DLQ\n", all.Written, all.Known, len(all.Left))
	for _, l := range all.Left {
		of := ""
		if l.ID != "" {
			of = ", event " + terminal.SafeLine(l.ID)
		}
		fmt.Fprintf(&b, "%s message %d%s: %s\n", run.style.Red("LEFT"), l.Message, of, terminal.SafeLine(l.Why))
	}
	return run.print(b.String(), code)
}
