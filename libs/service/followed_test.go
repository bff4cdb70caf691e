package service_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus/logs"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/redact"
	"github.com/busbar-mcp/busbar/libs/service"
)

// An operator hears what a call tells its client and its own log, whatever either of
// them wants; in a task, too. Clients and logs get what they got before.
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
	here, heard := make(chan struct{}, 8), make(chan logs.Record, 16)
	ctx, cancel := context.WithCancel(t.Context())
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
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	bustest.Eventually(t, "the instance is followed", func() bool { return len(here) > 0 })
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
			var r logs.Record
			select {
			case r = <-heard:
			case <-time.After(bustest.Patience):
				t.Fatal("no record came")
			}
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
