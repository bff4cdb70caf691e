package service_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus/logs"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/redact"
	"github.com/busbar-mcp/busbar/libs/service"
)

// An operator receives all that a call tells its client and its own log, at any level, in tasks
// too. Clients and logs receive the same as without an operator.
func TestOperatorsFollowCalls(t *testing.T) {
	t.Parallel()
	var own bustest.Log
	s := service.New("svc", service.WithLogger(slog.New(slog.NewTextHandler(&own, &slog.HandlerOptions{Level: slog.LevelWarn}))))
	says := func(_ context.Context, call *service.Call, _ struct{}) (string, error) {
		call.Log("debug", "shop", map[string]any{"n": 1, "password": "hunter2"})
		l := call.Logger().With("order", 7).WithGroup("of")
		l.Debug("placed", "by", call.Principal())
		l.Warn("late")
		l = call.Logger().With("level", 3, "time", "noon", "password", "hunter2")
		l.Info("twice", "level", 4, "msg", "hunter2", "as", []byte("x"), slog.Group("as", "level", slog.LevelError))
		return "", nil
	}
	service.AddTool(s, service.Tool{Name: "place"}, says)
	service.AddTool(s, service.Tool{Name: "job", Task: service.TaskRequired}, says)
	c := run(t, s)
	heard := follow(t, c)
	req := tool("place", `{}`)
	req.Identity = &busv1.Identity{Principal: "ada", Tenant: "acme"}
	same(t, "the client asked for nothing", c.notifications(req), "")
	_, task := c.begin(from(takesTasks, "job"))
	for _, who := range []struct{ call, name, principal, tenant string }{{"", "place", "ada", "acme"}, {task, "job", "anonymous", ""}} {
		for _, want := range []logs.Record{
			{Level: "debug", Client: true, Logger: "shop", Data: []byte(`{"n":1,"password":"` + redact.Marker + `"}`)},
			{Level: "debug", Data: []byte(`{"msg":"placed","order":7,"of":{"by":"` + who.principal + `"}}`)},
			{Level: "warning", Data: []byte(`{"msg":"late","order":7}`)},
			{Level: "info", Data: []byte(`{"msg":"twice","level":3,"time":"noon","password":"` + redact.Marker + `","level#2":4,"msg#2":"hunter2","as":"eA==","as#2":{"level":"ERROR"}}`)},
		} {
			r := next(t, heard)
			if r.Level != want.Level || r.Client != want.Client || r.Logger != want.Logger || string(r.Data) != string(want.Data) {
				t.Errorf("heard %s %t %q %s, want %s %t %q %s", r.Level, r.Client, r.Logger, r.Data, want.Level, want.Client, want.Logger, want.Data)
			}
			if r.Name != who.name || r.Principal != who.principal || r.Tenant != who.tenant || r.Method != "tools/call" || r.Call == "" || who.call != "" && r.Call != who.call {
				t.Errorf("whose: %+v", r.Of)
			}
		}
	}
	bustest.Eventually(t, "its own log has both", func() bool { return strings.Count(own.String(), "msg=late") >= 2 })
	if log := own.String(); strings.Contains(log, "placed") || !strings.Contains(log, "principal=ada") {
		t.Errorf("its own log has\n%s", log)
	}
}

// follow follows what services log until the test ends.
func follow(t *testing.T, c *client) <-chan logs.Record {
	t.Helper()
	here, heard := make(chan struct{}, 8), make(chan logs.Record, 16)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() {
		ended <- logs.Follow(ctx, c.conn, nil, logs.Filter{}, logs.Reader{
			Record: func(r logs.Record) error { heard <- r; return nil },
			Missed: func(_, _ string, n uint64) error { t.Errorf("%d are missing", n); return nil },
			Here: func(instances, _, _ int) error {
				if instances > 0 {
					here <- struct{}{}
				}
				return nil
			},
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	bustest.Eventually(t, "the instance is followed", func() bool { return len(here) > 0 })
	return heard
}

// next waits for the next record.
func next(t *testing.T, heard <-chan logs.Record) (r logs.Record) {
	t.Helper()
	select {
	case r = <-heard:
	case <-time.After(bustest.Patience):
		t.Fatal("no record came")
	}
	return r
}

// A panic, an error hidden from clients, and an end by runtime.Goexit (as FailNow of a test calls
// it) each make one record: bounded in the service's log, and without secrets for operators. The
// caller receives neither text nor stack.
func TestOperatorsFollowPanics(t *testing.T) {
	t.Parallel()
	var own bustest.Log
	s := service.New("svc", service.WithLogger(slog.New(slog.NewJSONHandler(&own, nil))))
	breaks := func(_ context.Context, _ *service.Call, in []byte) (*service.Result, error) {
		if strings.Contains(string(in), "deep") {
			sink(0)
		}
		if strings.Contains(string(in), "long") {
			panic(strings.Repeat("é", 5<<20))
		}
		if strings.Contains(string(in), "far") {
			return nil, errors.New(strings.Repeat("é", 5<<20))
		}
		if strings.Contains(string(in), "goexit") {
			runtime.Goexit()
		}
		if strings.Contains(string(in), "fields") {
			panic(&struct{ User, Password string }{"ada", "hunter2"})
		}
		if strings.Contains(string(in), "secret") {
			panic("cannot log in: password=hunter2")
		}
		if strings.Contains(string(in), "error") {
			return nil, errors.New("disk on host7 is full; password=hunter2")
		}
		return nil, errors.New(string(in[10_000])) // a panic of the runtime
	}
	s.AddTool(service.Tool{Name: "breaks"}, breaks)
	s.AddTool(service.Tool{Name: "job", Task: service.TaskRequired}, breaks)
	c := run(t, s)
	heard := follow(t, c)
	for _, one := range []struct{ in, msg, says string }{
		{`{}`, "handler panicked", `"panic":"runtime error: index out of range [10000] with length 2","stack":["`},
		{`{"deep":1}`, "handler panicked", `"panic":"too deep"`},
		{`{"long":1}`, "handler panicked", `…","stack":["`},
		{`{"far":1}`, "handler failed", `é…"`},
		{`{"goexit":1}`, "handler ended its goroutine with runtime.Goexit", ``},
		{`{"secret":1}`, "handler panicked", `"panic":"cannot log in: password=`},
		{`{"fields":1}`, "handler panicked", `"panic":"&{User:ada Password:`},
		{`{"error":1}`, "handler failed", `"error":"disk on host7 is full; password=`},
	} {
		f := c.fails(tool("breaks", one.in), fault.Internal)
		if text := f.Error(); f.Executed != fault.Unknown || strings.Contains(text, ".go") || strings.Contains(text, "host7") || strings.Contains(text, "index") {
			t.Errorf("the caller is told %+v", f)
		}
		r := next(t, heard)
		if r.Level != "error" || r.Name != "breaks" || r.Call == "" || !strings.Contains(string(r.Data), `{"msg":"`+one.msg+`"`) || !strings.Contains(string(r.Data), one.says) || strings.Contains(string(r.Data), "hunter2") {
			t.Errorf("heard %s of %s: %s", r.Level, r.Name, r.Data)
		}
		if one.msg == "handler panicked" && !strings.Contains(string(r.Data), "followed_test.go:") {
			t.Errorf("the stack does not name the handler: %s", r.Data)
		}
		line := last(own.String())
		if strings.Contains(line, "hunter2") {
			t.Errorf("its log has the secret: %s", line)
		}
		var record struct {
			Msg, Service, Tool, Call string
			Stack                    []string
		}
		if err := json.Unmarshal([]byte(line), &record); err != nil || record.Msg != one.msg || record.Service != "svc" || record.Tool != "breaks" || record.Call != r.Call {
			t.Errorf("its log ends with %s: %v", line, err)
		}
		if strings.Contains(line, "é") && (len(line) > 16<<10 || !strings.Contains(line, strings.Repeat("é", 1<<10)+"… (10485760 bytes)")) {
			t.Errorf("10 MiB of text are %d bytes of its log", len(line))
		}
		if n := len(record.Stack); one.msg == "handler panicked" && (n == 0 || n > 32 || strings.HasPrefix(record.Stack[0], "runtime.")) {
			t.Errorf("%d frames: %q", n, record.Stack)
		}
	}
	_, task := c.begin(from(takesTasks, "job"))
	if r := next(t, heard); r.Call != task || r.Name != "job" || !strings.Contains(string(r.Data), "handler panicked") {
		t.Errorf("heard of a task: %+v %s", r.Of, r.Data)
	}
}

// sink panics deep in the stack.
func sink(depth int) {
	if depth == 1000 {
		panic("too deep")
	}
	sink(depth + 1)
}

// last is the last line of a log.
func last(log string) string {
	lines := strings.Split(strings.TrimSpace(log), "\n")
	return lines[len(lines)-1]
}
