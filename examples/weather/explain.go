package weather

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/busbar-mcp/busbar/libs/fetch"
	"github.com/busbar-mcp/busbar/libs/service"
)

// explain makes of a failure what the model is told, and notes it. Neither holds a
// host or a URL.
func (w *weather) explain(ctx context.Context, call *service.Call, tool string, err error) error {
	// A caller that gave up is not told; the bus knows.
	if errors.Is(ctx.Err(), context.Canceled) {
		return err
	}
	var (
		failure *fetch.Failure
		no      *refused
		text    string
	)
	switch {
	case errors.As(err, &no):
		text = no.text()
	case errors.As(err, &failure):
		text = reason(failure)
	case errors.Is(err, context.DeadlineExceeded):
		text = reason(&fetch.Failure{Kind: fetch.TimedOut})
	default:
		text = "The National Weather Service's answer could not be read; call again, and tell the operator if it stays so"
	}
	w.Logger().WarnContext(ctx, "the National Weather Service did not help", "tool", tool, "call", call.ID(), "error", err)
	call.Log("warning", "weather", text)
	w.note("%s: %v", tool, err)
	return service.Errorf("%s", text)
}

// text explains a refusal to the caller.
func (r *refused) text() string {
	switch r.status {
	case http.StatusNotFound:
		return "The National Weather Service has nothing for this place: it covers the United States, their territories and waters. Check latitude and longitude, and their signs"
	case http.StatusBadRequest:
		return "The National Weather Service refuses the arguments; a state is a code such as NY or CA (" + r.detail + ")"
	case http.StatusTooManyRequests:
		return "The National Weather Service asks for fewer requests; call again in a minute"
	}
	return fmt.Sprintf("The National Weather Service answered with status %d (%s)", r.status, r.detail)
}

func reason(f *fetch.Failure) string {
	again := "; call again later"
	if left := time.Until(f.Until); !f.Until.IsZero() && left > 0 {
		again = fmt.Sprintf("; call again in %d s", int(left.Seconds())+1)
	}
	switch f.Kind {
	case fetch.Shut:
		return "The National Weather Service has been failing, so nothing was sent" + again
	case fetch.TimedOut:
		return "The National Weather Service did not answer in time" + again
	case fetch.Insecure:
		return "There is no trusted connection to the National Weather Service; the operator has to look at its certificate"
	case fetch.TooLarge:
		return fmt.Sprintf("The National Weather Service's answer has more than %d MiB, which is not read", limits.Body>>20)
	}
	return "The National Weather Service is down or cannot be reached" + again
}
