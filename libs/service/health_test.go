package service_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/service"
)

func TestHealth(t *testing.T) {
	t.Parallel()
	var down atomic.Bool
	down.Store(true)
	asked := make(chan struct{}, 16)
	s := quiet(t, "svc", service.WithHealth(func(context.Context) error {
		asked <- struct{}{}
		if down.Load() {
			return errors.New("the shop's database is away")
		}
		return nil
	}))
	if err := service.Health(s); err == nil || err.Error() != "it was not asked yet" {
		t.Errorf("before it runs: %v", err)
	}
	run(t, s)
	<-asked
	bustest.Eventually(t, "the instance to be not ready", func() bool {
		err := service.Health(s)
		return err != nil && err.Error() == "the shop's database is away"
	})
}
