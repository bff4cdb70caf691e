package service_test

import (
	"context"
	"strings"
	"testing"
	"time"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus/registry"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/service"
)

// An instance with another store than the running instances is refused before it takes a call; one
// with the same store is accepted at once, also after a restart.
func TestB10OneStore(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	start := func(store string) (*service.Running, error) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		s := service.New("notes", service.WithLogger(bustest.Logger(t)))
		s.SetStore(store)
		service.AddTool(s, service.Tool{Name: "where", ReadOnly: true}, func(context.Context, *service.Call, map[string]any) (string, error) { return store, nil })
		return s.Start(ctx, bustest.Connect(t, url))
	}
	stop := func(r *service.Running) {
		t.Helper()
		if err := r.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}
	type started struct {
		*service.Running
		err error
	}
	// Both start at the same moment: one is accepted.
	both := make(chan started, 2)
	for _, store := range []string{"one", "two"} {
		go func() { r, err := start(store); both <- started{r, err} }()
	}
	first, second := <-both, <-both
	if first.err != nil {
		first, second = second, first
	}
	if first.err != nil || second.err == nil {
		t.Fatalf("of two stores at once: %v and %v", first.err, second.err)
	}
	if text := second.err.Error(); !strings.Contains(text, "--database-url") || !strings.Contains(text, "service notes already runs on another database") {
		t.Errorf("the refusal is %q", text)
	}
	conn := bustest.Connect(t, url)
	caller := bustest.Caller(t, conn)
	where := func() string {
		t.Helper()
		frame, err := caller.Call(t.Context(), "notes", &busv1.Request{Method: "tools/call", Name: "where", Arguments: []byte(`{}`)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return string(frame.GetResult().GetJson())
	}
	store := "one"
	if !strings.Contains(where(), store) {
		store = "two"
	}
	last, took := first.Running, time.Hour
	for n := 0; n < 3 && took > registry.BeatTTL/2; n++ { // a busy machine takes as long itself
		begun := time.Now()
		again, err := start(store)
		if err != nil {
			t.Fatalf("a second instance of the same store: %v", err)
		}
		stop(last)
		stop(again)
		if last, err = start(store); err != nil {
			t.Fatalf("started again: %v", err)
		}
		took = time.Since(begun)
	}
	if took > registry.BeatTTL/2 {
		t.Errorf("the same store was let in again after %v", took)
	}
	for range 20 {
		if got := where(); !strings.Contains(got, store) {
			t.Fatalf("a call was answered from %s", got)
		}
	}
	stop(last)
	// Once no instance is left, another store may replace it.
	other, err := start("three")
	if err != nil {
		t.Fatalf("after the others have gone: %v", err)
	}
	stop(other)
}
