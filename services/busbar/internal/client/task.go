package client

import (
	"context"
	"fmt"
	"io"

	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/busbar/internal/terminal"
)

// TaskOptions are the options of `busbar task`.
type TaskOptions struct {
	Options
	ID string
	// Wait waits for the end of the task and shows its result.
	Wait bool
	// Begun is the directory that calls were given as CallOptions.Begun.
	Begun string
}

// RunTaskGet is `busbar task get`: it says how a task is doing, and shows its result if
// there is one. It returns the exit code.
func RunTaskGet(ctx context.Context, o TaskOptions, stdin io.Reader, stdout, stderr io.Writer) int {
	r := newRun(o.Options, stdout, stderr)
	if o.Wait {
		return r.follow(ctx, o.ID, o.Options, &person{run: r, in: stdin})
	}
	t, err := r.task(ctx, o.ID)
	if err != nil {
		return r.fail(err, "")
	}
	return r.showTask(t, o.Options)
}

// RunTaskCancel is `busbar task cancel`.
func RunTaskCancel(ctx context.Context, o TaskOptions, stdout, stderr io.Writer) int {
	r := newRun(o.Options, stdout, stderr)
	ctx, stop := r.within(ctx)
	defer stop()
	raw, err := r.edge.do(ctx, request{method: mcp.MethodTasksCancel, params: params{TaskID: o.ID}, tasks: true})
	switch {
	case err != nil:
		return r.fail(err, "")
	case o.JSON:
		return r.printRaw(raw, o.Options, ExitOK)
	}
	fmt.Fprintln(stderr, "asked to end; see `busbar task get "+terminal.SafeLine(o.ID)+"`")
	return ExitOK
}

// printTask prints the id of the task that a call goes on as.
func (r *run) printTask(res *Result, o Options) int {
	if o.JSON {
		return r.printRaw(res.Raw, o, ExitOK)
	}
	return r.print(terminal.SafeLine(res.Task)+"\n", ExitOK)
}

// showTask prints a task: its result if it is completed, otherwise its state.
func (r *run) showTask(t *Task, o Options) int {
	code := map[string]int{"failed": ExitToolError, "cancelled": ExitRefused}[t.Status]
	if o.JSON {
		return r.printRaw(t.Raw, o, code)
	}
	switch t.Status {
	case "completed":
		res, err := decodeResult(t.Result)
		if err != nil {
			return r.fail(err, "")
		}
		return r.show(res, "", o)
	case "failed":
		if failure, err := decodeRPCError(t.Failure, ""); err == nil {
			r.fail(failure, "")
			return code
		}
	}
	text := terminal.SafeLine(t.Status)
	if t.Message != "" {
		text += ": " + terminal.SafeLine(t.Message)
	}
	return r.print(text+"\n", code)
}
