package client

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

const auditRow = `{"id":"C1-2","call":"C1","time":"2026-01-02T03:04:05Z","tenant":"acme","principal":"ada","method":"tools/call","name":"a\u001b[31mb","outcome":"forbidden","executed":"no","durationNano":1500000,"seq":7,"hash":"ff"}`

// auditEdge answers by path and query.
func auditEdge(t *testing.T, answers map[string]string) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Busbar-Audit") != "t0ken" {
			t.Error("the token is missing")
		}
		answer, ok := answers[strings.TrimSuffix(r.URL.Path+"?"+r.URL.RawQuery, "?")]
		switch {
		case !ok:
			t.Errorf("asked %s", r.URL)
		case strings.Contains(answer, `"error"`):
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
		"/audit/list?limit=1":                 `{"error":"not here","reason":"forbidden"}`,
		"/audit/show?id=C1":                   `{"events":[` + auditRow + `]}`,
		"/audit/verify":                       `{"ok":false,"chains":[{"tenant":"","first":1,"last":2,"signed":2},{"tenant":"acme","problem":{"seq":7,"id":"C1-2","what":"changed"}}]}`,
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
	check("verify", RunAuditVerify(t.Context(), opts(0, nil), &out, &errs), ExitToolError, "BAD tenant acme: row 7 C1-2: changed")
	terminal := opts(2, url.Values{"name": {"x"}})
	terminal.Terminal, terminal.Getenv = true, func(string) string { return "" }
	check("table", RunAuditList(t.Context(), terminal, &out, &errs), ExitOK, "\x1b[31mforbidden\x1b[0m")
}
