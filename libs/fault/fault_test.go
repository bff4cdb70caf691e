package fault_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/busbar-mcp/busbar/libs/fault"
)

func TestExecutedByReason(t *testing.T) {
	t.Parallel()
	for reason, want := range map[fault.Reason]fault.Executed{
		fault.ParseError: fault.No, fault.InvalidRequest: fault.No, fault.TooLarge: fault.No, fault.HeaderMismatch: fault.No,
		fault.UnsupportedVersion: fault.No, fault.MissingCapability: fault.No, fault.MethodNotFound: fault.No, fault.InvalidParams: fault.No,
		fault.UnknownTool: fault.No, fault.UnknownPrompt: fault.No, fault.UnknownResource: fault.No, fault.UnknownSession: fault.No,
		fault.Unauthenticated: fault.No, fault.Forbidden: fault.No, fault.Conflict: fault.No, fault.RateLimited: fault.No,
		fault.Overloaded: fault.No, fault.Unavailable: fault.No,
		fault.DeadlineExceeded: fault.Unknown, fault.PeerLost: fault.Unknown, fault.Cancelled: fault.Unknown, fault.Internal: fault.Unknown,
		fault.ResultTooLarge: fault.Yes,
	} {
		if got := fault.New(reason, "x").Executed; got != want {
			t.Errorf("%s: %s, want %s", reason, got, want)
		}
	}
}

func TestErrorKeepsItsCauseApart(t *testing.T) {
	t.Parallel()
	plain := fault.New(fault.Internal, "failed on %d", 7)
	f := plain.Because(io.EOF).Ran(fault.Yes).With([]byte(`{}`))
	if f.Message != "failed on 7" || f.Error() != "failed on 7: EOF" || !errors.Is(f, io.EOF) {
		t.Errorf("message %q, error %q", f.Message, f.Error())
	}
	if plain.Error() != "failed on 7" || plain.Executed != fault.Unknown || plain.Data != nil {
		t.Errorf("the original changed: %+v", plain)
	}
}

func TestFrom(t *testing.T) {
	t.Parallel()
	own := fault.New(fault.Conflict, "taken")
	if got := fault.From(fmt.Errorf("secret: %w", own)); got != own {
		t.Errorf("got %v", got)
	}
	foreign := fault.From(io.ErrUnexpectedEOF)
	if foreign.Reason != fault.Internal || foreign.Message != "internal error" || !errors.Is(foreign, io.ErrUnexpectedEOF) {
		t.Errorf("got %+v", foreign)
	}
	if fault.From(nil) != nil {
		t.Error("no error became one")
	}
	if !fault.Is(fmt.Errorf("x: %w", own), fault.Conflict) || fault.Is(own, fault.Internal) || fault.Is(io.EOF, fault.Internal) || fault.Is(nil, fault.Internal) {
		t.Error("Is is wrong about a reason")
	}
}
