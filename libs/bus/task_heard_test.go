package bus_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"testing"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/task"
	"github.com/busbar-mcp/busbar/libs/bustest"
)

// A listener that is told of a change of a task can read it. NATS passes a write on before it is
// stored; a listener that then reads the old record would wait forever if that change was the last
// one.
func TestChangeIsReadWhenHeard(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	bucket := bustest.Connect(t, url).Bucket(bus.TasksBucket)
	reader := bustest.Join(t, url)
	id := "svc." + rand.Text()
	changed := make(chan struct{}, 1)
	stop, err := task.Open(reader).OnWrite(id, func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	ctx, cancel := context.WithTimeout(t.Context(), bustest.Patience)
	defer cancel()
	for i := range 300 {
		value, stored := fmt.Sprintf("again %d", i), make(chan error, 1)
		for len(changed) > 0 {
			<-changed
		}
		go func() { stored <- bucket.Put(ctx, id, []byte(value)) }()
		for heard := false; !heard; {
			select {
			case <-changed:
			case <-ctx.Done():
				t.Fatal("no change is heard")
			}
			// An earlier change may be announced late; only a missing announcement of this one is
			// an error.
			now, _, err := reader.Bucket(bus.TasksBucket).Look(ctx, id)
			if err != nil {
				t.Fatal(err)
			}
			heard = string(now) == value
		}
		if err := <-stored; err != nil {
			t.Fatal(err)
		}
	}
}
