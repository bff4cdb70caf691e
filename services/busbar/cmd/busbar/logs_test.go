package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bus/logs"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/services/busbar/internal/tail"
)

// Log records are shown to people, to programs between tabs, and as JSON; what it has in
// it cannot steer the terminal.
func TestLogs(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	conn, operator := bustest.Join(t, url), bustest.Join(t, url)
	tap := logs.NewTap(conn, "orders", func(data []byte, _ int) ([]byte, bool) { return data, false })
	stop, err := tap.Serve("i1")
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	of := logs.Of{Call: "ABCDEFGHIJ", Method: "tools/call", Name: "orders_place", Principal: "anna", Tenant: "shop"}
	say := func() {
		tap.Say(of, 4, true, "store", func() []byte { return []byte("\"a\\u001b[2Jb\u009b2Jc\u202ed\"") })
		tap.Say(of, 5, false, "", func() []byte {
			return []byte(`{"msg":"not stored","order":7,"stack":["main.a (/a.go:1)","b\u001b[2J"]}`)
		})
	}
	for name, form := range map[string]struct {
		tail.Options
		want []string
	}{
		"terminal": {tail.Options{Terminal: true}, []string{"warning   orders_place orders ABCDEFGH anna@shop store: a\\x1b[2Jb\\u009b2Jc\\u202ed\n", "error     orders_place orders ABCDEFGH anna@shop not stored order=7\n    main.a (/a.go:1)\n    b\\x1b[2J\n"}},
		"pipe":     {tail.Options{}, []string{"\twarning\torders\torders_place\tABCDEFGHIJ\tanna@shop\tstore: a\\x1b[2Jb\\u009b2Jc\\u202ed\n", `not stored order=7 stack=["main.a (/a.go:1)","b\u001b[2J"]` + "\n"}},
		"JSON":     {tail.Options{JSON: true}, []string{`"level":"warning","client":true,"logger":"store"`, `"tenant":"shop"`, `"data":"a\u001b[2Jb\u009b2Jc\u202ed"`}},
	} {
		form.Services = []string{"orders"}
		ctx, cancel := context.WithTimeout(t.Context(), bustest.Patience)
		var out, says bytes.Buffer
		here := make(chan struct{}, 8)
		ended := make(chan error, 1)
		go func() {
			ended <- tail.Run(ctx, operator, form.Options, writer(func(p []byte) { out.Write(p); endAfter(&out, cancel) }), writer(func(p []byte) {
				if says.Write(p); strings.HasPrefix(string(p), "following") { // a slow machine says first that nobody answers yet
					here <- struct{}{}
				}
			}))
		}()
		select {
		case <-here:
		case <-time.After(bustest.Patience):
			t.Fatal("nobody is said to be here")
		}
		say()
		if err := <-ended; err != nil {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
		for _, want := range form.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: %q has no %q", name, out.String(), want)
			}
		}
		if !strings.HasSuffix(says.String(), "following 1 instances of 1 services\n") {
			t.Errorf("%s: says %q", name, says.String())
		}
	}
}

type writer func([]byte)

func (w writer) Write(p []byte) (int, error) { w(p); return len(p), nil }

// endAfter ends a run that has written two lines.
func endAfter(out *bytes.Buffer, end func()) {
	if bytes.Count(out.Bytes(), []byte("\n")) == 2 {
		end()
	}
}
