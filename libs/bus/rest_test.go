package bus

import (
	"slices"
	"testing"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
)

// Progress that has arrived is passed on before the call's end, even if the caller had to ask the
// instance for the end because this process was late.
func TestProgressIsToldBeforeAnEndThatWasAskedFor(t *testing.T) {
	t.Parallel()
	arrived := func(f *busv1.Frame) arrival {
		data, err := proto.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		return arrival{msg: &nats.Msg{Subject: "reply", Data: data}}
	}
	progress := func(n uint32) arrival {
		return arrived(&busv1.Frame{Seq: n, Body: &busv1.Frame_Progress{Progress: &busv1.Progress{Progress: float64(n)}}})
	}
	result := arrived(&busv1.Frame{Seq: 3, Body: &busv1.Frame_Result{Result: &busv1.Result{Json: []byte("{}")}}})
	for name, c := range map[string]struct {
		waits []arrival
		told  []float64
		ended bool
	}{
		"nothing has come":         {nil, nil, false},
		"progress has come":        {[]arrival{progress(1), progress(2)}, []float64{1, 2}, false},
		"the end has come as well": {[]arrival{progress(1), progress(2), result}, []float64{1, 2}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var told []float64
			a := &attempt{exchange: &exchange{queue: c.waits}, options: Options{OnFrame: func(f *busv1.Frame) { told = append(told, f.GetProgress().Progress) }}}
			frame := a.drain(t.Context())
			if !slices.Equal(told, c.told) || (frame != nil) != c.ended {
				t.Errorf("told %v, then %v", told, frame)
			}
		})
	}
}

// The request of a later attempt has a number; the id of its call has none.
func TestCallOf(t *testing.T) {
	t.Parallel()
	id := NewCallID()
	for _, request := range []string{id, id + "-2", id + "-3"} {
		if got := CallOf(request); got != id {
			t.Errorf("%s is of %s", request, got)
		}
	}
}
