package bus_test

import (
	"context"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	edgev1 "github.com/busbar-mcp/busbar/gen/busbar/edge/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// The client's answer may arrive at another edge than the one that asked; only an answer from the
// right session counts.
func TestQuestionIsAnsweredThroughAnyEdge(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	here := bustest.Join(t, url)
	asking, other := callerOn(t, here), newCaller(t, url)
	if err := here.Flush(t.Context()); err != nil { // NATS knows what it listens to
		t.Fatal(err)
	}
	q := asking.Ask()
	defer q.Close()
	unrelated := asking.Ask()
	defer unrelated.Close()
	if q.ID == unrelated.ID {
		t.Fatal("two questions have one id")
	}
	want := &edgev1.ClientAnswer{Session: "mine"}
	for _, a := range []struct {
		id      string
		session string
	}{
		{unrelated.ID, "mine"}, {q.ID, "another's"}, {q.ID, ""}, {"", "mine"}, {"x", "mine"}, {"a.b", "mine"}, {"*.>", "mine"}, {q.ID + "x", "mine"},
		{q.ID + ".x", "mine"}, {"a b.c", "mine"}, {q.ID, "mine"},
	} {
		if err := other.Answer(a.id, &edgev1.ClientAnswer{Session: a.session}); err != nil {
			t.Errorf("%q: %v", a.id, err)
		}
	}
	if got, err := q.Wait(within(t, bustest.Patience), "mine"); err != nil || !proto.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := unrelated.Wait(within(t, bustest.Patience), "mine"); err != nil {
		t.Errorf("the other question: %v", err)
	}
}

func TestQuestionWithoutAnswer(t *testing.T) {
	t.Parallel()
	caller := newCaller(t, bustest.Server(t))
	q := caller.Ask()
	_, err := q.Wait(within(t, 50*time.Millisecond), "s")
	fails(t, err, fault.DeadlineExceeded, fault.Unknown)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := q.Wait(ctx, "s"); err == nil {
		t.Error("answered though nobody did")
	}
	q.Close()
	if err := caller.Answer(q.ID, &edgev1.ClientAnswer{Session: "s"}); err != nil { // too late: nobody is there
		t.Error(err)
	}
}

// No service may have the name that stands for clients.
func TestClientsNameIsTaken(t *testing.T) {
	t.Parallel()
	if bus.ValidName("client") == nil {
		t.Error("a service may be called client")
	}
}
