package client

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/busbar/internal/terminal"
	"github.com/go-json-experiment/json/jsontext"
)

// detail is one labelled line below an error's message.
type detail struct{ label, text string }

// explain returns an error's exit code and what to tell the user: what is
// wrong, whether the call ran, and what to do next. tool is empty for a list.
func explain(err error, tool string, known []Tool) (int, string, []detail) {
	var (
		usage     *UsageError
		rejected  *RejectedToolError
		rpc       *RPCError
		transport *TransportError
		http      *HTTPError
		protocol  *ProtocolError
	)
	switch {
	case errors.As(err, &usage):
		return ExitUsage, usage.Message, nil
	case errors.As(err, &rejected):
		return ExitRefused, rejected.Error(), []detail{{"next", "have the service's author correct the tool's inputSchema"}}
	case errors.As(err, &rpc):
		code, details := explainRPC(rpc, tool, known)
		return code, rpc.Message, details
	case errors.As(err, &http):
		return explainHTTP(http, tool, known)
	case errors.As(err, &transport):
		executed := fault.No
		if transport.Sent && transport.Method == mcp.MethodToolsCall {
			executed = fault.Unknown
		}
		details := ran(executed, tool, known)
		if next := transport.next(); next != "" && executed == fault.No {
			details = append(details, detail{"next", next})
		}
		return ExitTransport, transport.Error(), details
	case errors.As(err, &protocol):
		executed := fault.No
		if protocol.Method == mcp.MethodToolsCall {
			executed = fault.Unknown
		}
		return ExitTransport, protocol.Error(), ran(executed, tool, known)
	}
	return ExitTransport, err.Error(), nil
}

func explainHTTP(e *HTTPError, tool string, known []Tool) (int, string, []detail) {
	next := ""
	switch {
	case e.Location != "":
		next = "if you trust " + e.Location + ", give it as --url"
	case e.Status == 401:
		next = showCredentials
	case e.Status == 403:
		next = "ask whoever runs the edge for the permission"
	case e.Status == 400 && (strings.Contains(e.Body, "use https") || strings.Contains(e.Body, "HTTPS server")):
		next = "give the --url with https://"
	case e.refused() || e.Status < 300:
		next = "check that --url names the MCP endpoint of an edge that speaks " + mcp.Modern
	}
	code, executed := ExitTransport, fault.Unknown
	if e.refused() {
		code, executed = ExitRefused, fault.No
	}
	details := ran(executed, tool, known)
	if next != "" {
		details = append(details, detail{"next", next})
	}
	return code, e.Error(), details
}

const showCredentials = "put an API key or access token that is good there into BUSBAR_TOKEN, or show a certificate with --cert and --key"

// ran tells whether the call ran, in words. A list has no effect to tell of.
func ran(x fault.Executed, tool string, known []Tool) []detail {
	if tool == "" {
		return nil
	}
	switch x {
	case fault.No:
		return []detail{{"executed", "no - nothing ran"}}
	case fault.Yes:
		return []detail{{"executed", "yes - it ran, only its answer is lost"}}
	}
	next := "check whether it had its effect before you call again"
	if i := slices.IndexFunc(known, func(t Tool) bool { return t.Name == tool }); i >= 0 && known[i].Annotations != nil {
		switch a := known[i].Annotations; {
		case a.ReadOnlyHint != nil && *a.ReadOnlyHint:
			next = "call again: the tool says that it only reads"
		case a.IdempotentHint != nil && *a.IdempotentHint:
			next = "call again: the tool says that calling twice does no more than once"
		}
	}
	return []detail{{"executed", "unknown - it may have run"}, {"next", next}}
}

func explainRPC(e *RPCError, tool string, known []Tool) (int, []detail) {
	reason := cmp.Or(string(e.Reason), "not given")
	if e.Code != 0 {
		reason += fmt.Sprintf(" (code %d)", e.Code)
	}
	details := []detail{{"reason", reason}}
	// Other data of the error, by name; an array or text is shown whole.
	if e.Data.Kind() != '{' && len(e.Data) > 0 {
		details = append(details, detail{"data", oneLine(e.Data)})
	} else {
		_ = eachMember(e.Data, func(name string, v jsontext.Value) error { // was checked when decoded
			if name != "reason" && name != "executed" && name != "next" && name != "retryAfterMs" { // the way on of a terminal is another
				details = append(details, detail{terminal.SafeLine(name), plainScalar(v)})
			}
			return nil
		})
		slices.SortFunc(details[1:], func(a, b detail) int { return cmp.Compare(a.label, b.label) })
	}
	after := ran(e.Executed, tool, known)
	code := ExitTransport
	if e.Executed == fault.No {
		code = ExitRefused
	}
	if e.Reason == fault.ApprovalRequired {
		code = ExitHeld
	}
	if next := nextStep(e, tool, known); next != "" {
		after = append(slices.DeleteFunc(after, func(d detail) bool { return d.label == "next" && e.Executed != fault.Unknown }), detail{"next", next})
	}
	return code, append(details, after...)
}

const seeTools = "see `busbar tools` for what there is"

// nextStep is what to do about an error for which it is clear that calling
// again as before is wrong, or when it is right.
func nextStep(e *RPCError, tool string, known []Tool) string {
	unknownTool := e.Reason == fault.UnknownTool ||
		e.Reason == fault.InvalidParams && tool != "" && !slices.ContainsFunc(known, func(t Tool) bool { return t.Name == tool })
	if unknownTool {
		if near := nearest(tool, toolNames(known)); len(near) > 0 {
			return "did you mean " + strings.Join(near, ", ") + "?"
		}
		return seeTools
	}
	again := "call again"
	if e.RetryAfter > 0 {
		again += " in " + e.RetryAfter.Round(time.Millisecond).String()
	}
	switch e.Reason {
	case fault.UnknownPrompt:
		return "see `busbar prompts` for what there is"
	case fault.UnknownResource:
		return "see `busbar resources` for what there is"
	case fault.UnknownTask:
		return "`busbar call --detach` prints the id of each task; its call made it, and only who made that sees it"
	case fault.InvalidParams:
		if tool == "" {
			return "see `busbar prompts` for the arguments that there are"
		}
		return "compare the arguments with `busbar tools " + tool + "`"
	case fault.MissingCapability:
		if bytes.Contains(e.Data, []byte(`"elicitation"`)) {
			return "call it on a terminal: it asks you something"
		}
	case fault.MethodNotFound:
		return "this server has no tools; give another --url"
	case fault.Unauthenticated:
		return showCredentials
	case fault.Forbidden:
		return "ask whoever runs the edge for the permission"
	case fault.UnknownApproval:
		return "see `busbar approve` for what waits"
	case fault.TooLarge:
		return "send smaller arguments"
	case fault.ResultTooLarge:
		return "ask for less at once"
	case fault.UnsupportedVersion:
		return "this client speaks MCP " + mcp.Modern + " only; the server is older or newer"
	case fault.HeaderMismatch:
		return "something between here and the edge may change headers; try without it"
	case fault.RateLimited, fault.Overloaded:
		return again
	case fault.Unavailable:
		return "who runs the bus sees with `busbar doctor` what is wrong there; or " + again
	}
	if e.RetryAfter > 0 && e.Executed == fault.No {
		return again
	}
	return ""
}
