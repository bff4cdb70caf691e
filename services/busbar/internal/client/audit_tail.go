package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/audit/trail"
	"github.com/busbar-mcp/busbar/services/busbar/internal/terminal"
)

// AuditTailOptions are the options of `busbar audit tail`.
type AuditTailOptions struct {
	AuditOptions
	// Follow goes on until the context ends.
	Follow bool
	// Every is the time between two questions while events come. Default a second.
	Every time.Duration
	// FindToken returns the operator's token of now, empty for none. An edge makes a new
	// token each time it starts.
	FindToken func() string
}

// slowest is the time between two questions while no events come, or no answer.
const slowest = 10 * time.Second

// RunAuditTail is `busbar audit tail`: it prints the newest events, the oldest of them first, and
// then, if it follows, each event that reaches the trail. Each question starts where the last
// answer ended, so a lost connection neither loses nor repeats an event.
func RunAuditTail(ctx context.Context, o AuditTailOptions, stdout, stderr io.Writer) int {
	t := &auditTail{run: newRun(o.Options, stdout, stderr), o: o}
	t.line.on = false // a follower waits most of the time
	if o.Follow {
		if _, err := t.ask(ctx); err != nil { // from now on
			return t.end(ctx, err)
		}
	}
	if err := t.backlog(ctx); err != nil || !o.Follow {
		return t.end(ctx, err)
	}
	wait, since := cmp.Or(o.Every, time.Second), time.Time{}
	for soonest := wait; ; {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ExitOK
		}
		page, err := t.ask(ctx)
		if t.renewed(err) {
			page, err = t.ask(ctx)
		}
		switch {
		case err == nil:
			err = t.show(page.Events)
			if !since.IsZero() {
				fmt.Fprintln(stderr, "the audit trail answers again")
			}
			since = time.Time{}
			wait = min(max(2*wait, soonest), slowest)
			if len(page.Events) > 0 {
				wait = soonest
			}
			if page.More {
				wait = 0
			} else {
				t.listed = nil
			}
		case passes(err) && ctx.Err() == nil:
			if since.IsZero() {
				since = time.Now()
				fmt.Fprintf(stderr, "no answer since %s: %s; trying again\n", since.Format(time.TimeOnly), terminal.SafeLine(err.Error()))
			}
			wait, err = min(max(2*wait, soonest), slowest), nil
		}
		if err != nil {
			return t.end(ctx, err)
		}
	}
}

// auditTail is a tail under way.
type auditTail struct {
	*run
	o AuditTailOptions
	// position is where the next question starts.
	position string
	// listed are the events of the backlog, until the first answer was compared with them.
	listed map[[2]string]bool
	// table is set once the head is printed.
	table *terminal.Table
	// layout is the form of times in that table.
	layout string
}

// renewed reports whether the edge refused the operator's token because it has a new one.
func (t *auditTail) renewed(err error) bool {
	var refused *auditError
	if !errors.As(err, &refused) || refused.status >= 500 || t.o.Token == "" || t.o.FindToken == nil {
		return false
	}
	token := t.o.FindToken()
	if token == "" || token == t.o.Token {
		return false
	}
	t.o.Token = token
	return true
}

// errOutput ends a tail whose output cannot be written; that was said already.
var errOutput = errors.New("the output cannot be written")

func (t *auditTail) end(ctx context.Context, err error) int {
	switch {
	case err == nil, ctx.Err() != nil: // Ctrl-C is how it ends
		return ExitOK
	case errors.Is(err, errOutput):
		return ExitTransport
	}
	return t.failAudit(t.o.AuditOptions, err)
}

// passes reports whether an error may pass: a connection that is lost, or a service that is away.
func passes(err error) bool {
	var refused *auditError
	if errors.As(err, &refused) {
		return refused.reason != fault.ResultTooLarge && (refused.status >= 500 || refused.status == http.StatusTooManyRequests)
	}
	var answer *HTTPError
	if errors.As(err, &answer) {
		return answer.Status >= 500
	}
	return errors.As(err, new(*TransportError))
}

// ask returns the events after the last answer.
func (t *auditTail) ask(ctx context.Context) (page auditPage, err error) {
	ctx, stop := t.within(ctx)
	defer stop()
	parameters := maps.Clone(t.o.Filter)
	if parameters == nil {
		parameters = url.Values{}
	}
	if t.position != "" {
		parameters.Set("after", t.position)
	}
	raw, err := t.edge.audit(ctx, t.o.Token, "tail", parameters)
	if err != nil {
		return page, err
	}
	if err := decode(raw, &page); err != nil || page.Next == "" {
		return page, &ProtocolError{Message: "the answer is malformed", Err: err}
	}
	t.position = page.Next
	return page, nil
}

// backlog prints the newest events that are there already.
func (t *auditTail) backlog(ctx context.Context) error {
	if t.o.Most <= 0 {
		return nil
	}
	ctx, stop := t.within(ctx)
	defer stop()
	o := t.o.AuditOptions
	if o.Filter = maps.Clone(o.Filter); o.Filter == nil {
		o.Filter = url.Values{}
	}
	if o.Filter.Get("name") == "" {
		o.Filter.Set("questions", "false")
	}
	var events []jsontext.Value
	err := t.eachEvent(ctx, o, func(e jsontext.Value) error {
		events = append(events, e)
		return nil
	})
	if err != nil {
		return err
	}
	switch {
	case len(events) > 0:
	case t.o.Follow:
		fmt.Fprintln(t.stderr, "waiting for events")
	case len(t.o.Filter) > 0:
		fmt.Fprintln(t.stderr, "no events match")
	default:
		fmt.Fprintln(t.stderr, "no events yet")
	}
	slices.Reverse(events)
	listed := map[[2]string]bool{}
	for _, raw := range events {
		var e trail.Row
		if decode(raw, &e) == nil { // show says it if not
			listed[[2]string{e.ID, e.Edge}] = true
		}
	}
	err = t.show(events)
	t.listed = listed
	return err
}

// show prints events that are not printed yet.
func (t *auditTail) show(events []jsontext.Value) error {
	for _, raw := range events {
		var e trail.Row
		if err := decode(raw, &e); err != nil {
			return &ProtocolError{Message: "an event is malformed", Err: err}
		}
		if t.listed[[2]string{e.ID, e.Edge}] {
			continue
		}
		if t.print(t.text(raw, &e), ExitOK) != ExitOK {
			return errOutput
		}
	}
	return nil
}

// text is an event as it is printed, below the head if it is the first.
func (t *auditTail) text(raw jsontext.Value, e *trail.Row) string {
	head := ""
	switch {
	case t.o.JSON && t.o.Terminal:
		return terminal.SafeJSON(oneLine(raw)) + "\n"
	case t.o.JSON:
		return oneLine(raw) + "\n"
	case !t.o.Terminal && t.table == nil:
		head, t.table = auditHead, &terminal.Table{}
		fallthrough
	case !t.o.Terminal:
		return head + auditLine(e)
	case t.table == nil:
		// Later rows are not known, so the columns have their usual widths.
		width := terminal.Columns(t.o.Width, t.getenv)
		t.layout = longDate
		if width < 100 {
			t.layout = time.TimeOnly
		}
		usual := []string{t.layout, "a-tenant/somebody", "a_name_of_usual_length__", "unauthenticated", "unknown", "123.45ms", "ABCDEFGH"}
		t.table = terminal.NewTable(auditTitles, [][]string{usual}, width, 2*maxColumn, terminal.Cut{Column: columnOutcome, Least: 11}, terminal.Cut{Column: columnWho, Least: 10}, terminal.Cut{Column: columnName, Least: 4})
		head = t.table.Line(auditTitles, func(_ int, text string) string { return t.style.Bold(text) })
	}
	return head + t.table.Line(auditCells(e, t.layout), auditPaint(t.style))
}
