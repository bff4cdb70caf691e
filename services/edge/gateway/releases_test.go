package gateway_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/service"
)

type amountV1 struct {
	Amount int `json:"amount"`
}

type amountV2 struct {
	Amount   int    `json:"amount"`
	Currency string `json:"currency"`
}

// release is a service "pay" of one version; each answer names the version.
func release[A any](t *testing.T, url, version string, more ...string) *service.Running {
	t.Helper()
	s := service.New("pay", service.WithVersion(version), service.WithLogger(bustest.Logger(t)))
	service.AddTool(s, service.Tool{Name: "pay", Description: "of " + version}, func(context.Context, *service.Call, A) (string, error) { return version, nil })
	service.AddTool(s, service.Tool{Name: "same", Description: "of " + version}, func(context.Context, *service.Call, amountV1) (string, error) { return version, nil })
	for _, name := range more {
		service.AddTool(s, service.Tool{Name: name}, func(context.Context, *service.Call, amountV1) (string, error) { return version, nil })
	}
	r, err := s.Start(t.Context(), bustest.Connect(t, url))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Stop(context.WithoutCancel(t.Context())) })
	return r
}

// While two releases run, callers in the old form are served by the old one and callers in the
// new form by the new one, every time.
func TestB6EachFormRunsOnItsRelease(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	w := startOn(t, url, nil)
	for range 2 {
		release[amountV1](t, url, "1.0.0", "old")
	}
	live := w.live
	bustest.Eventually(t, "v1 is there", func() bool { target, ok := live.Now().Tool("pay"); return ok && target.Instances == nil })
	v2 := release[amountV2](t, url, "2.0.0", "new")
	bustest.Eventually(t, "v2 is there, and both v1", func() bool {
		target, _ := live.Now().Tool("pay")
		return target.Version == "2.0.0" && len(target.Instances) == 1 && len(target.Earlier) == 1 && len(target.Earlier[0].Instances) == 2
	})
	call := func(name, arguments string) (version, instance string) {
		t.Helper()
		answer, err := w.gateway.Do(t.Context(), toolCall(name, arguments), nil)
		if err != nil {
			t.Fatalf("%s %s: %v", name, arguments, err)
		}
		c := w.last(t)
		if c.Ran.Version == "" || !strings.Contains(string(answer.Result.Json), c.Ran.Version) || c.Ran.Instance == "" {
			t.Fatalf("%s %s ran at %q %q and answered %s", name, arguments, c.Ran.Instance, c.Ran.Version, answer.Result.Json)
		}
		return c.Ran.Version, c.Ran.Instance
	}
	spread, instances := map[string]int{}, map[string]bool{}
	for i := range 60 {
		if v, instance := call("pay", `{"amount":1}`); v != "1.0.0" {
			t.Fatalf("call %d in the old form ran on %s", i, v)
		} else {
			instances[instance] = true
		}
		if v, _ := call("pay", `{"amount":1,"currency":"EUR"}`); v != "2.0.0" {
			t.Fatalf("call %d in the new form ran on %s", i, v)
		}
		if v, _ := call("new", `{"amount":1}`); v != "2.0.0" {
			t.Fatalf("call %d of the new tool ran on %s", i, v)
		}
		if v, _ := call("old", `{"amount":1}`); v != "1.0.0" {
			t.Fatalf("call %d of the tool that is no more ran on %s", i, v)
		}
		v, _ := call("same", `{"amount":1}`)
		spread[v]++
	}
	if len(spread) != 2 || len(instances) != 2 {
		t.Errorf("calls in a form that all have ran on %v; old ones on %v", spread, instances)
	}
	_, err := w.gateway.Do(t.Context(), toolCall("pay", `{"amount":"x"}`), nil)
	if f := fault.From(err); f.Reason != fault.InvalidParams || f.Executed != fault.No || !strings.Contains(f.Message, "currency") {
		t.Errorf("what no form takes is refused by the newest: %v", err)
	}
	if err := v2.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "one release is left", func() bool {
		target, ok := live.Now().Tool("pay")
		return ok && target.Instances == nil && target.Version == "1.0.0" && len(target.Earlier) == 0
	})
	if v, _ := call("pay", `{"amount":1}`); v != "1.0.0" {
		t.Error(v)
	}
}

// Calls for an instance that has gone go to another instance of its release, never to one that
// does not understand them.
func TestB6NoCallOnAnotherRelease(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	w := startOn(t, url, nil)
	release[amountV1](t, url, "1.0.0")
	v2 := release[amountV2](t, url, "2.0.0")
	live := w.live
	bustest.Eventually(t, "both are there", func() bool { target, _ := live.Now().Tool("pay"); return len(target.Earlier) == 1 })
	stopped := make(chan error, 1)
	go func() { stopped <- v2.Stop(context.WithoutCancel(t.Context())) }()
	ran := map[string]int{}
	for range 200 {
		_, err := w.gateway.Do(t.Context(), toolCall("pay", `{"amount":1,"currency":"EUR"}`), nil)
		version := w.last(t).Ran.Version
		switch f := fault.From(err); {
		case err == nil && version == "2.0.0":
			ran["v2"]++
		case err == nil:
			// Once v2 is gone its form is gone, too, and v1 accepts unknown members.
			if target, _ := live.Now().Tool("pay"); len(target.Earlier) != 0 || target.Version != "1.0.0" {
				t.Fatalf("a call in the new form ran on %s", version)
			}
			ran["v1"]++
		case f.Executed == fault.No:
			ran[fmt.Sprint(f.Reason)]++
		default:
			t.Fatalf("%v", err)
		}
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	t.Log(ran)
}
