package era

import (
	"math"
	"time"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus/edges"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// Answer and Forward make messages of what a service sent.

// Answer sends a call's answer.
func (s *Server) Answer(r *Request, x Exchange, a *gateway.Answer) { s.answer(r, x, a) }

// Task is what tasks/get says of a task.
func Task(rec *busv1.TaskRecord) []byte { return appendTask([]byte{'{'}, rec, true) }

// Forward sends the frames of one call.
func Forward(token []byte, x Exchange, frames ...*busv1.Frame) {
	n := notifier{token: token, x: x, last: math.Inf(-1)}
	for _, f := range frames {
		n.forward(f)
	}
}

// ParseEventID and EventID read and write the ids of events of an answer,
// ParseChangeID and ChangeID those of a stream of changes.
var ParseEventID, ParseChangeID = parseEventID, parseChangeID

func EventID(name string, at edges.Position) string { return eventID(&edges.Stream{Name: name}, at) }

func ChangeID(then time.Time, digest string) string { return changeID(then, digest, nil) }

// Know takes note of a client and returns how many are remembered.
func (s *Server) Know(info, capabilities []byte) int {
	s.clients.get(info, capabilities)
	s.clients.mu.RLock()
	defer s.clients.mu.RUnlock()
	return len(s.clients.known)
}
