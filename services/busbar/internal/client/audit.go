package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/audit/trail"
	"github.com/busbar-mcp/busbar/services/busbar/internal/terminal"
)

// redeliver is the one verb of the trail that changes something.
const redeliver = "redeliver"

// auditHeader has the token of the edge's operator.
const auditHeader = "Busbar-Audit"

// AuditOptions are the options of `busbar audit`.
type AuditOptions struct {
	Options
	// Filter are the parameters of the audit service's list.
	Filter url.Values
	// Most is how many events to list; 0 is all.
	Most int
	// ID of an event or a call, to show.
	ID string
	// Token is the operator's, of an edge on this machine; empty for none, and then
	// NoToken says why.
	Token   string
	NoToken error
}

// eventTook is how long the call of an event took.
func eventTook(e *trail.Row) string {
	return time.Duration(e.DurationNano).Round(10 * time.Microsecond).String()
}

type auditPage struct {
	Events   []jsontext.Value `json:"events"`
	Next     string           `json:"next"`
	More     bool             `json:"more"`
	NotShown int64            `json:"notShown"`
}

// audit asks an edge about its audit trail.
func (c *Client) audit(ctx context.Context, token, verb string, parameters url.Values) (jsontext.Value, error) {
	method := http.MethodGet
	if verb == redeliver {
		method = http.MethodPost
	}
	r, err := c.plain(ctx, method, nil, "audit", verb)
	if err != nil {
		return nil, err
	}
	r.URL.RawQuery = parameters.Encode()
	if token != "" {
		r.Header.Set(auditHeader, token)
	}
	defer c.waiting()()
	resp, err := c.httpClient().Do(r)
	if err != nil {
		return nil, c.auditLost(ctx, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxMessage))
	if err != nil {
		return nil, c.auditLost(ctx, err)
	}
	if resp.StatusCode == http.StatusOK && jsontext.Value(body).IsValid() {
		return body, nil
	}
	switch refused := readProblem(body); {
	case refused == nil:
		return nil, &HTTPError{URL: c.shownURL(), Status: resp.StatusCode, Location: resp.Header.Get("Location")}
	case refused.Reason == fault.InvalidParams:
		return nil, &UsageError{Message: refused.Message}
	default:
		return nil, &auditError{refused.Message, refused.Reason, resp.StatusCode}
	}
}

func (c *Client) auditLost(ctx context.Context, err error) error {
	if ctx.Err() == context.Canceled {
		return ctx.Err()
	}
	return &TransportError{URL: c.shownURL(), Err: err}
}

// auditError is an answer of the edge or of the audit service.
type auditError struct {
	message string
	reason  fault.Reason
	status  int
}

func (e *auditError) Error() string { return e.message }

// failAudit explains an error and returns the exit code.
func (r *run) failAudit(o AuditOptions, err error) int {
	if e, ok := err.(*auditError); ok {
		fmt.Fprintln(r.stderr, r.errStyle.Red("error: ")+terminal.SafeText(e.message))
		if e.status == http.StatusForbidden && o.NoToken != nil {
			fmt.Fprintf(r.stderr, "  %s %s; name the edge's data directory with --data-dir\n", r.errStyle.Dim("token:"), terminal.SafeText(o.NoToken.Error()))
		}
		if e.status < 500 {
			return ExitRefused
		}
		return ExitTransport
	}
	return r.fail(err, "")
}

// eachEvent visits events, page by page.
func (r *run) eachEvent(ctx context.Context, o AuditOptions, visit func(jsontext.Value) error) error {
	parameters := url.Values{}
	for key, values := range o.Filter {
		parameters[key] = values
	}
	for left := o.Most; ; {
		size := 1000
		if o.Most > 0 {
			size = min(size, left)
		}
		parameters.Set("limit", strconv.Itoa(size))
		raw, err := r.edge.audit(ctx, o.Token, "list", parameters)
		if err != nil {
			return err
		}
		var page auditPage
		if err := decode(raw, &page); err != nil {
			return &ProtocolError{Message: "the list is malformed", Err: err}
		}
		r.notShown = max(r.notShown, page.NotShown)
		for _, e := range page.Events {
			if err := visit(e); err != nil {
				return err
			}
		}
		if left -= len(page.Events); page.Next == "" || o.Most > 0 && left <= 0 {
			return nil
		}
		parameters.Set("cursor", page.Next)
	}
}

// RunAuditExport is `busbar audit export`: one line of JSON for each event.
func RunAuditExport(ctx context.Context, o AuditOptions, stdout, stderr io.Writer) int {
	run := newRun(o.Options, stdout, stderr)
	ctx, stop := run.within(ctx)
	defer stop()
	o.Filter.Set("all", "true") // the beginnings too: the chain has them
	code := ExitOK
	err := run.eachEvent(ctx, o, func(e jsontext.Value) error {
		text := oneLine(e)
		if o.Terminal {
			text = terminal.SafeJSON(text)
		}
		if code = run.print(text+"\n", ExitOK); code != ExitOK {
			return context.Canceled
		}
		return nil
	})
	if code != ExitOK {
		return code
	}
	if err != nil {
		return run.failAudit(o, err)
	}
	return ExitOK
}

// RunAuditList is `busbar audit ls`.
func RunAuditList(ctx context.Context, o AuditOptions, stdout, stderr io.Writer) int {
	run := newRun(o.Options, stdout, stderr)
	ctx, stop := run.within(ctx)
	defer stop()
	if o.Most < 0 {
		return run.fail(&UsageError{Message: "--limit must not be negative; 0 lists all"}, "")
	}
	var raw []string
	var events []trail.Row
	err := run.eachEvent(ctx, o, func(v jsontext.Value) error {
		var e trail.Row
		if err := decode(v, &e); err != nil {
			return &ProtocolError{Message: "an event is malformed", Err: err}
		}
		raw, events = append(raw, oneLine(v)), append(events, e)
		return nil
	})
	switch {
	case err != nil:
		return run.failAudit(o, err)
	case o.JSON && o.Terminal:
		return run.print(terminal.SafeJSON("["+strings.Join(raw, ",")+"]")+"\n", ExitOK)
	case o.JSON:
		return run.print("["+strings.Join(raw, ",")+"]\n", ExitOK)
	}
	code := ExitOK
	switch {
	case len(events) == 0 && len(o.Filter) > 0:
		fmt.Fprintln(stderr, "no events match; a call is listed within a second of its end")
	case len(events) == 0:
		fmt.Fprintln(stderr, "no events yet; a call is listed within a second of its end")
	case o.Terminal:
		code = run.print(auditTable(events, terminal.Columns(o.Width, run.getenv), run.style), ExitOK)
	default:
		var b strings.Builder
		b.WriteString(auditHead)
		for _, e := range events {
			b.WriteString(auditLine(&e))
		}
		code = run.print(b.String(), ExitOK)
	}
	if n := run.notShown; n > 0 && code == ExitOK {
		are := map[bool]string{true: "event of other tenants is", false: "events of other tenants are"}[n == 1]
		fmt.Fprintf(stderr, "%d %s not shown\n", n, are)
	}
	return code
}

// auditHead is the first line where standard output is not a terminal; auditLine is an event.
const auditHead = "TIME\tTENANT\tPRINCIPAL\tDOOR\tMETHOD\tNAME\tOUTCOME\tRAN\tTOOK\tCALL\n"

func auditLine(e *trail.Row) string {
	cells := []string{e.Time.Format(time.RFC3339Nano), e.Tenant, e.Principal, e.Door, e.Method, e.Name, e.Outcome, e.Executed, eventTook(e), e.Call}
	for i, cell := range cells {
		cells[i] = terminal.SafeLine(cell)
	}
	return strings.Join(cells, "\t") + "\n"
}

// Bounds of looking for an id by a part of it: characters of that, and events, the
// newest first.
const leastID, maxLookedAt = 4, 10_000

// errFound ends a search.
var errFound = errors.New("found")

// wholeID is the id of which the user gave the end, as lists show it, or the beginning: one
// call, or none and then what was given.
func (r *run) wholeID(ctx context.Context, o AuditOptions) (string, error) {
	if len(o.ID) >= len(rand.Text()) || len(o.ID) < leastID {
		return o.ID, nil // whole, or too little of one
	}
	calls := map[string]bool{}
	o.Filter, o.Most = url.Values{}, maxLookedAt
	err := r.eachEvent(ctx, o, func(raw jsontext.Value) error {
		var e trail.Row
		if err := decode(raw, &e); err != nil {
			return &ProtocolError{Message: "an event is malformed", Err: err}
		}
		if part := strings.ToUpper(o.ID); strings.HasSuffix(e.Call, part) || strings.HasPrefix(e.Call, part) {
			calls[e.Call] = true
		}
		if len(calls) > 1 {
			return errFound
		}
		return nil
	})
	switch found := slices.Sorted(maps.Keys(calls)); {
	case len(found) > 1:
		return "", &UsageError{Message: fmt.Sprintf("%s is part of the ids of several calls, such as %s; give more of it", o.ID, strings.Join(found, " and "))}
	case err != nil:
		return "", err
	case len(found) == 1:
		return found[0], nil
	}
	return o.ID, nil
}

// RunAuditShow is `busbar audit show`.
func RunAuditShow(ctx context.Context, o AuditOptions, stdout, stderr io.Writer) int {
	run := newRun(o.Options, stdout, stderr)
	ctx, stop := run.within(ctx)
	defer stop()
	id, err := run.wholeID(ctx, o)
	if err != nil {
		return run.failAudit(o, err)
	}
	raw, err := run.edge.audit(ctx, o.Token, "show", url.Values{"id": {id}})
	if err != nil {
		return run.failAudit(o, err)
	}
	if o.JSON {
		return run.printRaw(raw, o.Options, ExitOK)
	}
	var page auditPage
	if err := decode(raw, &page); err != nil {
		return run.fail(&ProtocolError{Message: "the answer is malformed", Err: err}, "")
	}
	var b strings.Builder
	for i, v := range page.Events {
		var e trail.Row
		if err := decode(v, &e); err != nil {
			return run.fail(&ProtocolError{Message: "an event is malformed", Err: err}, "")
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		showEvent(&b, &e, run.style)
	}
	return run.print(b.String(), ExitOK)
}

// RunAuditVerify is `busbar audit verify`. A trail that was tampered with is
// ExitToolError.
func RunAuditVerify(ctx context.Context, o AuditOptions, stdout, stderr io.Writer) int {
	run := newRun(o.Options, stdout, stderr)
	ctx, stop := run.within(ctx)
	defer stop()
	raw, err := run.edge.audit(ctx, o.Token, "verify", nil)
	if err != nil {
		return run.failAudit(o, err)
	}
	var report trail.Report
	if err := decode(raw, &report); err != nil {
		return run.fail(&ProtocolError{Message: "the report is malformed", Err: err}, "")
	}
	code := ExitOK
	if !report.OK {
		code = ExitToolError
	}
	if o.JSON {
		return run.printRaw(raw, o.Options, code)
	}
	var b strings.Builder
	for _, c := range report.Chains {
		tenant := "no tenant"
		if c.Tenant != "" {
			tenant = "tenant " + terminal.SafeLine(c.Tenant)
		}
		switch p := c.Problem; {
		case p != nil:
			fmt.Fprintf(&b, "%s %s: row %d %s: %s\n", run.style.Red("BAD"), tenant, p.Seq, terminal.SafeLine(p.ID), terminal.SafeLine(p.What))
		case c.Last == 0:
			fmt.Fprintf(&b, "ok  %s: no rows\n", tenant)
		default:
			fmt.Fprintf(&b, "ok  %s: rows %d to %d, signed to %d\n", tenant, c.First, c.Last, c.Signed)
		}
	}
	if len(report.Chains) == 0 {
		b.WriteString("ok  the trail is empty\n")
	}
	for _, text := range report.Unknown {
		fmt.Fprintf(&b, "not known: %s\n", terminal.SafeLine(text))
	}
	return run.print(b.String(), code)
}
