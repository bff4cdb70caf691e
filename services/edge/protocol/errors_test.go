package protocol_test

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/protocol"
)

// row is one reason of docs/reference/errors.md; index 0 is for modern clients, 1 for legacy
// ones.
type row struct {
	code, status [2]int
	executed     string
}

func errorTable(t *testing.T) map[fault.Reason]row {
	t.Helper()
	page, err := os.ReadFile("../../../docs/reference/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[fault.Reason]row{}
	ofMCP, _, _ := strings.Cut(string(page), "\n## The other doors\n")
	for line := range strings.Lines(ofMCP) {
		cells := strings.Split(line, "|")
		if len(cells) < 6 || !strings.Contains(cells[1], "`") || strings.Contains(cells[1], "data.") {
			continue
		}
		var r row
		for cell, both := range map[string]*[2]int{cells[2]: &r.code, cells[3]: &r.status} {
			values := strings.Split(cell, ",")
			for i := range both {
				n, err := strconv.Atoi(strings.TrimSpace(values[min(i, len(values)-1)]))
				if err != nil {
					t.Fatalf("%s: %v", line, err)
				}
				both[i] = n
			}
		}
		r.executed = strings.TrimSpace(cells[4])
		for name := range strings.SplitSeq(cells[1], ",") {
			rows[fault.Reason(strings.Trim(name, " `"))] = r
		}
	}
	return rows
}

// TestErrorTable keeps docs/reference/errors.md true.
func TestErrorTable(t *testing.T) {
	t.Parallel()
	rows := errorTable(t)
	reasons := []fault.Reason{
		fault.ParseError, fault.InvalidRequest, fault.TooLarge, fault.HeaderMismatch, fault.UnsupportedVersion, fault.MissingCapability,
		fault.MethodNotFound, fault.InvalidParams, fault.UnknownTool, fault.UnknownPrompt, fault.UnknownResource, fault.UnknownTask, fault.UnknownSession, fault.UnknownToolset,
		fault.Unauthenticated, fault.Forbidden, fault.ApprovalRequired, fault.UnknownApproval, fault.InputRequired, fault.UnknownElicitation, fault.Conflict, fault.RateLimited, fault.Overloaded, fault.Unavailable,
		fault.DeadlineExceeded, fault.PeerLost, fault.Cancelled, fault.HistoryLost, fault.ResultTooLarge, fault.Internal,
	}
	if len(rows) != len(reasons) {
		t.Errorf("docs/reference/errors.md has %d reasons, libs/fault %d", len(rows), len(reasons))
	}
	for _, reason := range reasons {
		want, ok := rows[reason]
		if !ok {
			t.Errorf("docs/reference/errors.md does not have %s", reason)
		}
		for i, version := range []string{mcp.Modern, mcp.V20251125} {
			e := fault.New(reason, "what went wrong").With([]byte(`{"more":true}`))
			e.RetryAfter = 1500 * time.Millisecond
			status, b := protocol.ErrorMessage(&mcp.Message{ID: []byte(`"i"`)}, version, e)
			m := object(t, b)
			body := object(t, m["error"])
			data := object(t, body["data"])
			if status != want.status[i] || string(body["code"]) != strconv.Itoa(want.code[i]) {
				t.Errorf("%s in %s: status %d, code %s; docs/reference/errors.md says %d, %d", reason, version, status, body["code"], want.status[i], want.code[i])
			}
			if string(data["executed"]) != `"`+want.executed+`"` || string(data["reason"]) != `"`+string(reason)+`"` {
				t.Errorf("%s in %s: data %s; docs/reference/errors.md says executed %s", reason, version, body["data"], want.executed)
			}
			if string(data["retryAfterMs"]) != "1500" || string(data["more"]) != "true" || string(m["id"]) != `"i"` || !strings.Contains(string(body["message"]), "what went wrong") {
				t.Errorf("%s: %s", reason, b)
			}
		}
	}
}

// 2026-07-28, basic, Error Codes: we use no code that JSON-RPC or MCP reserve, and none that
// earlier versions used up.
func TestErrorCodesOfModern(t *testing.T) {
	t.Parallel()
	allowed := map[int]bool{-32700: true, -32600: true, -32601: true, -32602: true, -32603: true, -32020: true, -32021: true, -32022: true}
	for reason, r := range errorTable(t) {
		if c := r.code[0]; c >= -32768 && c <= -32000 && !allowed[c] {
			t.Errorf("%s has code %d", reason, c)
		}
	}
}

func TestErrorWithoutID(t *testing.T) {
	t.Parallel()
	for _, m := range []*mcp.Message{nil, {}} {
		_, b := protocol.ErrorMessage(m, "", fault.New(fault.ParseError, "x"))
		if o := object(t, b); o["id"] != nil {
			t.Errorf("%s", b)
		}
	}
}

// A cause is for the log.
func TestErrorsHideTheirCause(t *testing.T) {
	t.Parallel()
	_, b := protocol.ErrorMessage(nil, mcp.Modern, fault.New(fault.Unavailable, "away").Because(os.ErrPermission))
	_, c := protocol.ErrorMessage(nil, mcp.Modern, os.ErrPermission)
	if s := string(b) + string(c); strings.Contains(s, "permission") {
		t.Errorf("%s", s)
	}
}
