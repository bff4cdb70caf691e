package protocol

import (
	"maps"
	"slices"

	"github.com/busbar-mcp/busbar/libs/mcp"
	"math"
	"time"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// Answer and Forward make messages from what a service sent.

// Answer sends a call's answer.
func (s *Server) Answer(r *Request, out Responder, a *gateway.Answer) {
	rep, err := r.reply(a, nil)
	status, message := s.response(r, rep, err)
	out.Respond(status, message, err)
}

// Task is the result of tasks/get for a task.
func Task(rec *busv1.TaskRecord) []byte { return appendTask([]byte{'{'}, rec, true) }

// Forward sends the frames of one call.
func Forward(token []byte, out Sender, frames ...*busv1.Frame) {
	n := notifier{token: token, out: out, last: math.Inf(-1)}
	for _, f := range frames {
		n.forward(f)
	}
}

// ParseEventID and EventID read and write the event ids of an answer; ParseChangeID and ChangeID
// read and write the event ids of a stream of changes.
var ParseEventID, EventID, ParseChangeID = parseEventID, eventID, parseChangeID

func ChangeID(then time.Time, digest string) string { return changeID(then, digest, nil) }

// Know takes note of a client and returns how many are remembered.
func (s *Server) Know(info, capabilities []byte) int {
	s.clients.get(info, capabilities)
	s.clients.mu.RLock()
	defer s.clients.mu.RUnlock()
	return len(s.clients.known)
}

// Methods are the names of all methods, by version.
func Methods() map[string][]string {
	return map[string][]string{
		mcp.Modern:       slices.Sorted(maps.Keys(modernMethods)),
		mcp.LegacyLatest: slices.Sorted(maps.Keys(legacyMethods)),
	}
}
