package resource_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/resource"
)

// A second instance with its own file is refused; one with the same file, after a restart, is not.
func TestB10SecondFileIsRefused(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	begin := func(dir string) (stop func(), err error) {
		t.Helper()
		r, err := resource.New(ctx, resource.Env{DataEnv: service.DataEnv{Env: service.Env{Log: bustest.Logger(t)}, DataDir: dir}})
		if err != nil {
			t.Fatal(err)
		}
		running, err := r.Start(ctx, bustest.Connect(t, url))
		if err != nil {
			return nil, err
		}
		return func() {
			if err := running.Stop(context.WithoutCancel(ctx)); err != nil {
				t.Error(err)
			}
		}, nil
	}
	dir := t.TempDir()
	stop, err := begin(dir)
	if err != nil {
		t.Fatal(err)
	}
	if stopOther, err := begin(t.TempDir()); err == nil {
		stopOther()
		t.Error("an instance with a file of its own joins")
	} else if !strings.Contains(err.Error(), "--database-url") {
		t.Errorf("refused with %v", err)
	}
	stop()
	if stop, err = begin(dir); err != nil {
		t.Fatalf("the same file is refused after a restart: %v", err)
	}
	stop()
}
