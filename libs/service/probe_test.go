package service_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/registry"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
)

// ownAddress is a loopback address that no other test uses.
func ownAddress() string {
	return fmt.Sprintf("127.%d.%d.%d:9100", 64+rand.IntN(128), rand.IntN(256), 1+rand.IntN(254))
}

func read(t *testing.T, url string) (status int, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Close = true
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(raw)
}

// A service program shows from start to end whether it is ready, and counts its calls under its own
// names. When it is told to stop it leaves, and finishes what it has begun.
func TestProbeOfAProgram(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	conn := bustest.Connect(t, url)
	caller, err := bus.NewCaller(conn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = caller.Close() })
	var away atomic.Bool
	building, build := make(chan struct{}), make(chan struct{})
	begun, finish := make(chan struct{}), make(chan struct{})
	var made *service.Service
	command := service.NewCommand("svc", func(context.Context, service.Env) (*service.Service, error) {
		close(building)
		<-build
		s := quiet(t, "svc")
		s.Check("database", func() error {
			if away.Load() {
				return errors.New("it does not answer")
			}
			return nil
		})
		s.AddMetrics(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "svc_own", Help: "Its own."}, func() float64 { return 7 }))
		service.AddTool(s, service.Tool{Name: "echo"}, func(_ context.Context, _ *service.Call, in []byte) (*service.Result, error) {
			return &service.Result{Content: []mcp.Content{mcp.Text(string(in))}}, nil
		})
		service.AddTool(s, service.Tool{Name: "fails"}, func(context.Context, *service.Call, []byte) (*service.Result, error) {
			return nil, service.Errorf("c4n4ry")
		})
		service.AddTool(s, service.Tool{Name: "holds"}, func(context.Context, *service.Call, []byte) (*service.Result, error) {
			close(begun)
			<-finish
			return &service.Result{}, nil
		})
		made = s
		return s, nil
	})
	command.NATS, command.Probe.MetricsListen = url, ownAddress()
	at := "http://" + command.Probe.MetricsListen
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	ready, out := io.Pipe()
	go func() { ran <- command.Run(ctx, out) }()
	<-building
	if status, body := read(t, at+"/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(body, "the service is starting") {
		t.Errorf("%d %s", status, body)
	}
	close(build)
	line := make([]byte, 200)
	n, err := ready.Read(line)
	if err != nil || string(line[:n]) != "busbar svc is ready: nats="+url+" metrics="+at+"/metrics\n" {
		t.Errorf("%q %v", line[:n], err)
	}
	if status, body := read(t, at+"/readyz"); status != http.StatusOK || !strings.Contains(body, "bus: connected\n") || !strings.Contains(body, "database: there\n") || !strings.Contains(body, "takes calls") {
		t.Errorf("%d %s", status, body)
	}
	away.Store(true)
	if status, body := read(t, at+"/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(body, "database: not ready: it does not answer\n") {
		t.Errorf("%d %s", status, body)
	}
	away.Store(false)

	call := func(method, name string) error {
		_, err := caller.Call(t.Context(), "svc", &busv1.Request{Method: method, Name: name, Arguments: []byte(`{"a":"c4n4ry"}`)}, nil)
		return err
	}
	for range 3 {
		if err := call(mcp.MethodToolsCall, "echo"); err != nil {
			t.Fatal(err)
		}
	}
	_ = call(mcp.MethodToolsCall, "fails")
	_ = call(mcp.MethodToolsCall, "c4n4ry")
	_ = call(mcp.MethodPromptsGet, "c4n4ry")
	held := make(chan error, 1)
	go func() { held <- call(mcp.MethodToolsCall, "holds") }()
	<-begun
	// A call returns its slot only after it was answered.
	var figures string
	bustest.Eventually(t, "one call runs", func() bool {
		_, figures = read(t, at+"/metrics")
		return strings.Contains(figures, `busbar_service_calls_running{service="svc"} 1`)
	})
	for _, want := range []string{
		`busbar_service_calls_total{method="tools/call",outcome="ok",service="svc",tool="echo"} 3`,
		`busbar_service_calls_total{method="tools/call",outcome="tool_error",service="svc",tool="fails"} 1`,
		`busbar_service_calls_total{method="tools/call",outcome="unknown_tool",service="svc",tool=""} 1`,
		`busbar_service_calls_total{method="prompts/get",outcome="unknown_prompt",service="svc",tool=""} 1`,
		`busbar_service_call_duration_seconds_count{method="tools/call",service="svc",tool="echo"} 3`,
		`busbar_service_calls_waiting{service="svc"} 0`, `busbar_service_slots{service="svc"} 64`,
		`busbar_service_overloaded_total{service="svc"} 0`, `busbar_service_info{instance="`, `busbar_ready{check="database"} 1`, "go_goroutines ", "\nsvc_own 7\n",
	} {
		if !strings.Contains(figures, want) {
			t.Errorf("no %s", want)
		}
	}
	if strings.Contains(figures, "c4n4ry") {
		t.Error("what a client wrote is among the figures")
	}

	// Tools that come and go do not create an unlimited number of series.
	for i := range 400 {
		name := fmt.Sprint("tool-", i)
		service.AddTool(made, service.Tool{Name: name}, func(context.Context, *service.Call, []byte) (*service.Result, error) { return &service.Result{}, nil })
		if err := call(mcp.MethodToolsCall, name); err != nil {
			t.Fatal(err)
		}
		made.RemoveTool(name)
	}
	_, figures = read(t, at+"/metrics")
	if n := strings.Count(figures, "busbar_service_calls_total{"); n > 256+6 || !strings.Contains(figures, `service="svc",tool="other"}`) {
		t.Errorf("%d series", n)
	}

	watch, err := registry.Watch(t.Context(), conn, func([]registry.Service) {})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Close()
	bustest.Eventually(t, "it is in the registry", func() bool { return len(watch.Services()) == 1 })
	stop()
	bustest.Eventually(t, "it is gone from the registry", func() bool { return len(watch.Services()) == 0 })
	bustest.Eventually(t, "it takes no calls", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		return fault.Is(caller.Check(ctx, "svc"), fault.Unavailable)
	})
	bustest.Eventually(t, "it says that it leaves", func() bool {
		status, body := read(t, at+"/readyz")
		return status == http.StatusServiceUnavailable && strings.Contains(body, "the instance is leaving")
	})
	if status, _ := read(t, at+"/healthz"); status != http.StatusOK {
		t.Errorf("%d: it finishes a call and shall not be killed", status)
	}
	close(finish)
	if err := errors.Join(<-held, <-ran); err != nil {
		t.Error(err)
	}
	if _, err := http.Get(at + "/healthz"); err == nil {
		t.Error("the probe goes on when the program has ended")
	}
}

// An instance that cannot write its registry entry says so at /readyz, because no edge that starts
// now calls it. A log line alone would be missed.
func TestRegistryTakesNothing(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	conn := bustest.Connect(t, url)
	command := service.NewCommand("svc", func(context.Context, service.Env) (*service.Service, error) { return quiet(t, "svc"), nil })
	command.NATS, command.Probe.MetricsListen = url, ownAddress()
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	ready, out := io.Pipe()
	go func() { ran <- command.Run(ctx, out) }()
	if _, err := ready.Read(make([]byte, 200)); err != nil {
		t.Fatal(err)
	}
	says := func(status int, what string) {
		t.Helper()
		bustest.Eventually(t, what, func() bool {
			now, body := read(t, "http://"+command.Probe.MetricsListen+"/readyz")
			return now == status && strings.Contains(body, what)
		})
	}
	says(http.StatusOK, "takes calls")
	if err := conn.JetStream().DeleteStream(t.Context(), "KV_"+bus.RegistryBucket); err != nil {
		t.Fatal(err)
	}
	says(http.StatusServiceUnavailable, "registry: not ready: edges may not know the instance")
	bustest.Connect(t, url) // as the next edge that starts
	says(http.StatusOK, "takes calls")
	stop()
	if err := <-ran; err != nil {
		t.Error(err)
	}
}
