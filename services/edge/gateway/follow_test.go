package gateway_test

import (
	"testing"

	"github.com/busbar-mcp/busbar/libs/bus/edges"
	"github.com/busbar-mcp/busbar/libs/bustest"
)

// TestM16WhatIsFollowedIsRecordedAsTheCallItWas: two edges tell clients how one
// call ended, and the trail shows that it was one.
func TestM16WhatIsFollowedIsRecordedAsTheCallItWas(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	first, second := startOn(t, url, nil), startOn(t, url, nil)
	c := toolCall("echo", `{"text":"x"}`)
	c.Stream = first.caller.NewStream()
	c.Stream.KeepAll = true
	first.works(t, c)
	again := toolCall("echo", `{"text":"x"}`)
	again.Stream = &edges.Stream{Name: c.Stream.Name, Home: c.Stream.Home}
	answer, err := second.gateway.Follow(t.Context(), again, edges.Position{}, nil, func() bool { return false })
	if err != nil || answer.Result == nil {
		t.Fatalf("followed to %+v, %v", answer, err)
	}
	if was, is := first.last(t), second.last(t); is.ID == "" || is.ID != was.ID || is.Outcome != was.Outcome {
		t.Errorf("recorded is %s %s, which was %s %s", is.ID, is.Outcome, was.ID, was.Outcome)
	}
}
