package client

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/busbar/internal/terminal"
)

// A tail prints the backlog with the oldest event first, then what follows, each event once: also
// after the connection was lost and the edge did not answer. Ctrl-C ends it with 0.
func TestAuditTail(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		width int
		json  bool
	}{"80 columns": {width: 80}, "160 columns": {width: 160}, "piped": {}, "JSON": {json: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			var asked []string
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				q := r.URL.Query()
				asked = append(asked, strings.TrimPrefix(r.URL.Path, "/audit/")+" "+q.Get("after"))
				if q.Get("outcome") != "forbidden" {
					t.Errorf("asked %s", r.URL)
				}
				answer := ""
				switch len(asked) {
				case 1: // where it starts
					answer = `{"events":[],"next":"p1"}`
				case 2: // the backlog, newest first
					answer = `{"events":[` + calls("BBBBBBBB", "AAAAAAAA") + `]}`
				case 3: // one of the backlog came after the start
					answer = `{"events":[` + calls("BBBBBBBB", "CCCCCCCC") + `],"next":"p2","more":true}`
				case 4:
					panic(http.ErrAbortHandler)
				case 5:
					w.WriteHeader(http.StatusServiceUnavailable)
					answer = `{"detail":"the audit trail does not answer","reason":"unavailable"}`
				case 6:
					answer = `{"events":[` + calls("DDDDDDDD") + `],"next":"p3"}`
				default:
					interrupt()
					answer = `{"events":[],"next":"p4"}`
				}
				_, _ = w.Write([]byte(answer))
			}))
			defer s.Close()
			o := AuditTailOptions{AuditOptions: AuditOptions{Options: Options{URL: s.URL, Timeout: bustest.Patience, JSON: c.json, Terminal: c.width > 0, Width: c.width, Getenv: noEnv}, Filter: url.Values{"outcome": {"forbidden"}}, Most: 2}, Follow: true, Every: time.Millisecond}
			var out, errs bytes.Buffer
			if code := RunAuditTail(ctx, o, &out, &errs); code != ExitOK {
				t.Errorf("it ends with %d: %s", code, errs.String())
			}
			if got := fmt.Sprint(asked[:7]); got != "[tail  list  tail p1 tail p2 tail p2 tail p2 tail p3]" {
				t.Errorf("asked %s", got)
			}
			order := []string{"AAAAAAAA", "BBBBBBBB", "CCCCCCCC", "DDDDDDDD"}
			at := 0
			for line := range strings.Lines(out.String()) {
				if strings.Contains(line, "TIME") {
					continue
				}
				if at >= len(order) || !strings.Contains(line, order[at]) {
					t.Fatalf("line %d:\n%s", at, out.String())
				}
				at++
				if plain := strings.TrimSuffix(plainText(line), "\n"); c.width > 0 && terminal.Cells(plain) > c.width {
					t.Errorf("%d columns: %s", terminal.Cells(plain), plain)
				}
			}
			if at != len(order) || strings.Count(errs.String(), "trying again") != 1 || strings.Count(errs.String(), "answers again") != 1 {
				t.Errorf("%d events; it says %s", at, errs.String())
			}
		})
	}
	s := auditEdge(t, map[string]string{"/audit/tail": `{"detail":"not for you","reason":"forbidden"}`})
	var out, errs bytes.Buffer
	code := RunAuditTail(t.Context(), AuditTailOptions{AuditOptions: AuditOptions{Token: "t0ken", Options: Options{URL: s.URL}, Most: 2}, Follow: true}, &out, &errs)
	outcome{code, out.String(), errs.String()}.check(t, ExitRefused, "", "error: not for you\n")
}

// An edge makes a new token for its operator when it starts. A tail goes on with that one.
func TestAuditTailNewToken(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	answered := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token := "old"
		if answered > 0 {
			token = "new"
		}
		if r.Header.Get(auditHeader) != token {
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`{"detail":"not for you","reason":"forbidden"}`))
			return
		}
		events := ""
		switch answered++; answered {
		case 2:
			events = calls("AAAAAAAA")
		case 3:
			interrupt()
		}
		_, _ = fmt.Fprintf(w, `{"events":[%s],"next":"p%d"}`, events, answered)
	}))
	defer s.Close()
	o := AuditTailOptions{
		AuditOptions: AuditOptions{Token: "old", Options: Options{URL: s.URL, Timeout: bustest.Patience}}, Follow: true, Every: time.Millisecond,
		FindToken: func() string { return "new" },
	}
	var out, errs bytes.Buffer
	if code := RunAuditTail(ctx, o, &out, &errs); code != ExitOK || strings.Count(out.String(), "AAAAAAAA") != 1 || errs.Len() > 0 {
		t.Errorf("%d %s %s", code, out.String(), errs.String())
	}
}

// A refusal that asking again cannot change ends a tail.
func TestAuditTailTooLarge(t *testing.T) {
	t.Parallel()
	if passes(&auditError{"it is too large", fault.ResultTooLarge, http.StatusInternalServerError}) || !passes(&auditError{"it is away", fault.Unavailable, http.StatusServiceUnavailable}) {
		t.Error("a tail asks again what cannot succeed, or ends though it can")
	}
}

// plainText is a text without colours.
func plainText(s string) string {
	for _, code := range []string{"\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[31m"} {
		s = strings.ReplaceAll(s, code, "")
	}
	return s
}

// An empty list says why.
func TestAuditListOfNothing(t *testing.T) {
	t.Parallel()
	s := auditEdge(t, map[string]string{
		"/audit/list?limit=1000":        `{"events":[]}`,
		"/audit/list?limit=1000&name=x": `{"events":[]}`,
		"/audit/list?limit=1":           `{"events":[],"notShown":3}`,
		"/audit/list?limit=2":           `{"events":[` + auditRow + `],"notShown":1}`,
	})
	for want, o := range map[string]AuditOptions{
		"no events yet; ":   {},
		"no events match; ": {Filter: url.Values{"name": {"x"}}},
		"no events yet; a call is listed within a second of its end\n3 events of other tenants are not shown\n": {Most: 1},
		"1 event of other tenants is not shown\n": {Most: 2},
	} {
		o.Token, o.Options = "t0ken", Options{URL: s.URL}
		var out, errs bytes.Buffer
		if code := RunAuditList(t.Context(), o, &out, &errs); code != ExitOK || !strings.HasPrefix(errs.String(), want) {
			t.Errorf("%d %s; want %s", code, errs.String(), want)
		}
	}
	var out, errs bytes.Buffer
	code := RunAuditList(t.Context(), AuditOptions{Most: -1, Options: Options{URL: s.URL}}, &out, &errs)
	outcome{code, out.String(), errs.String()}.check(t, ExitUsage, "", "--limit must not be negative")
}

// A repeated call with a key says that nothing ran.
func TestCallOnceAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i, want := range []string{"", "an earlier call with this key gave this answer; nothing ran now\n"} {
		got := runCall(t, CallOptions{Options: w.options(), Name: "measure", Arguments: []string{"text=four"}, Once: "key-1"}, "")
		if got.code != ExitOK || got.stdout != `{"length":4}`+"\n" || got.stderr != want {
			t.Errorf("call %d: %+v", i+1, got)
		}
	}
}
