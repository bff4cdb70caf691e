package client

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/services/audit/trail"
	"github.com/busbar-mcp/busbar/services/busbar/internal/terminal"
)

const auditRow = `{"id":"C1-2","call":"C1","time":"2026-01-02T03:04:05Z","tenant":"acme","principal":"ada","method":"tools/call","name":"a\u001b[31mb","outcome":"forbidden","executed":"no","durationNano":1500000,"seq":7,"hash":"ff"}`

// calls are events of calls.
func calls(ids ...string) string {
	rows := make([]string, len(ids))
	for i, id := range ids {
		rows[i] = strings.ReplaceAll(auditRow, "C1", id)
	}
	return strings.Join(rows, ",")
}

// A beginning that several calls have is refused, and says which.
func TestAuditAmbiguousID(t *testing.T) {
	t.Parallel()
	s := auditEdge(t, map[string]string{"/audit/list?limit=1000": `{"events":[` + calls("ABCD1", "ABCD2", "ABCD3") + `]}`})
	var out, errs bytes.Buffer
	code := RunAuditShow(t.Context(), AuditOptions{Token: "t0ken", Options: Options{URL: s.URL + "/mcp"}, ID: "ABCD"}, &out, &errs)
	outcome{code, out.String(), errs.String()}.check(t, ExitUsage, "", "ABCD is part of the ids of several calls, such as ABCD1 and ABCD2; give more of it")
}

// On 80 columns the newest event is last, and no line is wider.
func TestAuditTable(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local)
	row := func(call, tenant, who, method, name, outcome string) trail.Row {
		e := trail.Row{}
		e.Call, e.Tenant, e.Principal, e.Method, e.Name, e.Outcome, e.Executed, e.Time, e.DurationNano = call, tenant, who, method, name, outcome, "unknown", at, 12345678
		return e
	}
	got := auditTable([]trail.Row{
		row("K3J5V6Q2ZL4WBN7TYXC3M5R6DA", "a-tenant-of-a-long-name", "somebody@example.com", "tools/call", "orders_place_with_a_name_that_is_long", "deadline_exceeded"),
		row("K3J5V6Q2ZL4WBN7TYXZ3M5R6DB", "", "ada", "resources/read", "note://x", "ok"),
	}, 80, terminal.Style{})
	lines := strings.Split(strings.TrimSuffix(got, "\n"), "\n")
	if len(lines) != 3 || !strings.HasSuffix(lines[1], "  Z3M5R6DB") || !strings.HasSuffix(lines[2], "  C3M5R6DA") || !strings.Contains(lines[2], "deadline") {
		t.Errorf("got\n%s", got)
	}
	// Today needs no date, and names have its room.
	at = time.Now()
	got = auditTable([]trail.Row{row("K3J5V6Q2ZL4WBN7TYXC3M5R6DA", "", "ada", "tools/call", "text_processor", "ok")}, 80, terminal.Style{})
	if !strings.Contains(got, "\n"+at.Format(time.TimeOnly)+"  ada  text_processor") {
		t.Errorf("got\n%s", got)
	}
	for _, l := range lines {
		if terminal.Cells(l) > 80 {
			t.Errorf("%d columns: %s", terminal.Cells(l), l)
		}
	}
}

// auditEdge answers by path and query.
func auditEdge(t *testing.T, answers map[string]string) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Busbar-Audit") != "t0ken" {
			t.Error("the token is missing")
		}
		question := strings.TrimSuffix(r.URL.Path+"?"+r.URL.RawQuery, "?")
		if r.Method != http.MethodGet {
			question = r.Method + " " + question
		}
		answer, ok := answers[question]
		switch {
		case !ok:
			t.Errorf("asked %s", r.URL)
		case strings.Contains(answer, `"detail"`):
			w.WriteHeader(http.StatusForbidden)
		}
		_, _ = w.Write([]byte(answer))
	}))
	t.Cleanup(s.Close)
	return s
}

func TestAuditCommands(t *testing.T) {
	t.Parallel()
	s := auditEdge(t, map[string]string{
		"/audit/list?limit=2&name=x":          `{"events":[` + auditRow + `],"next":"c"}`,
		"/audit/list?cursor=c&limit=1&name=x": `{"events":[` + auditRow + `]}`,
		"/audit/list?all=true&limit=1000":     `{"events":[` + auditRow + `]}`,
		"/audit/list?limit=1":                 `{"detail":"not here","reason":"forbidden"}`,
		"/audit/show?id=C1":                   `{"events":[` + auditRow + `]}`,
		"/audit/list?limit=1000":              `{"events":[` + calls("ABCD1", "ABCD1", "ABCE2", "abcf") + `]}`,
		"/audit/show?id=ABCD1":                `{"events":[` + auditRow + `]}`,
		"/audit/show?id=WXYZ":                 `{"detail":"no such call","reason":"not_found"}`,
		"/audit/verify":                       `{"ok":false,"chains":[{"tenant":"","first":1,"last":2,"signed":2},{"tenant":"acme","problem":{"seq":7,"id":"C1-2","what":"changed"}}],"unknown":["rows that are \u001b[31mnew"]}`,
		"POST /audit/redeliver":               `{"written":500,"known":1,"left":[{"message":3,"why":"it has no id"}],"next":"501"}`,
		"POST /audit/redeliver?after=501":     `{"written":2,"known":0,"left":[{"message":502,"id":"C\u001b[31m","why":"too long"}]}`,
	})
	line := "2026-01-02T03:04:05Z\tacme\tada\t\ttools/call\ta\\x1b[31mb\tforbidden\tno\t1.5ms\tC1\n"
	opts := func(most int, filter url.Values) AuditOptions {
		return AuditOptions{Token: "t0ken", Options: Options{URL: s.URL + "/mcp"}, Most: most, Filter: filter, ID: "C1"}
	}
	var out, errs bytes.Buffer
	check := func(name string, code, want int, says string) {
		t.Helper()
		if code != want || !strings.Contains(out.String()+errs.String(), says) {
			t.Errorf("%s: status %d\n%s%s", name, code, out.String(), errs.String())
		}
		out.Reset()
		errs.Reset()
	}
	check("ls", RunAuditList(t.Context(), opts(2, url.Values{"name": {"x"}}), &out, &errs), ExitOK, "TIME\tTENANT\tPRINCIPAL\tDOOR\tMETHOD\tNAME\tOUTCOME\tRAN\tTOOK\tCALL\n"+line+line)
	refused := opts(1, nil)
	refused.NoToken = errors.New("there is no /data/operator-1.token")
	check("refused", RunAuditList(t.Context(), refused, &out, &errs), ExitRefused,
		"error: not here\n  token: there is no /data/operator-1.token; name the edge's data directory with --data-dir\n")
	check("export", RunAuditExport(t.Context(), opts(0, url.Values{}), &out, &errs), ExitOK, auditRow+"\n")
	check("show", RunAuditShow(t.Context(), opts(0, nil), &out, &errs), ExitOK, "name:        a\\x1b[31mb\n")
	short := opts(0, nil)
	short.ID = "abcd"
	check("show a beginning", RunAuditShow(t.Context(), short, &out, &errs), ExitOK, "name:        a\\x1b[31mb\n")
	short.ID = "bcd1"
	check("show an end", RunAuditShow(t.Context(), short, &out, &errs), ExitOK, "name:        a\\x1b[31mb\n")
	short.ID = "wxyz"
	check("show nothing", RunAuditShow(t.Context(), AuditOptions{Token: "t0ken", Options: short.Options, ID: "WXYZ"}, &out, &errs), ExitRefused, "no such call")
	check("verify", RunAuditVerify(t.Context(), opts(0, nil), &out, &errs), ExitToolError, "BAD tenant acme: row 7 C1-2: changed\nnot known: rows that are \\x1b[31mnew\n")
	check("redeliver", RunAuditRedeliver(t.Context(), opts(0, nil), &out, &errs), ExitToolError,
		"502 events written to the trail, 1 were there already, 2 left in stream DLQ\nLEFT message 3: it has no id\nLEFT message 502, event C\\x1b[31m: too long\n")
	asJSON := opts(0, nil)
	asJSON.JSON = true
	check("redeliver as JSON", RunAuditRedeliver(t.Context(), asJSON, &out, &errs), ExitToolError, `"written":502`)
	nothing := auditEdge(t, map[string]string{"POST /audit/redeliver": `{"written":0,"known":0,"left":[]}`})
	check("redeliver nothing", RunAuditRedeliver(t.Context(), AuditOptions{Token: "t0ken", Options: Options{URL: nothing.URL + "/mcp"}}, &out, &errs), ExitOK, "0 events written")
	half := auditEdge(t, map[string]string{"POST /audit/redeliver": `{"written":500,"known":0,"left":[],"next":"501"}`, "POST /audit/redeliver?after=501": `{"detail":"row 4 is behind","reason":"forbidden"}`})
	check("redeliver half", RunAuditRedeliver(t.Context(), AuditOptions{Token: "t0ken", Options: Options{URL: half.URL + "/mcp"}}, &out, &errs), ExitRefused, "500 events were written before it failed; repeat")
	terminal := opts(2, url.Values{"name": {"x"}})
	terminal.Terminal, terminal.Getenv = true, func(string) string { return "" }
	check("table", RunAuditList(t.Context(), terminal, &out, &errs), ExitOK, "\x1b[31mforbidden\x1b[0m")
}
