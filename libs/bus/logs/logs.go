// Package logs lets operators follow the log records of calls as they are made. An operator asks
// the instances of services (Follow), which send records for as long as they are asked (Tap).
// Nothing is stored, and without a follower nothing is sent. Start reading at Follow for operators
// and at Tap.Say for instances.
package logs

import (
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/bus/internal/subject"
	"github.com/busbar-mcp/busbar/libs/mcp"
)

// Of identifies the call that a record belongs to.
type Of struct {
	// Call is its id, the same as in the audit trail; Method is the MCP method, Name its tool,
	// prompt or resource.
	Call      string `json:"call"`
	Method    string `json:"method"`
	Name      string `json:"name"`
	Principal string `json:"principal"`
	Tenant    string `json:"tenant,omitzero"`
}

// Record is one log record of a call.
type Record struct {
	Time     time.Time `json:"time"`
	Service  string    `json:"service"`
	Instance string    `json:"instance"`
	// Number counts the records of one follower at an instance from 1; a missing one did not fit.
	Number uint64 `json:"number"`
	Of
	// Level is one of mcp.LogLevels. Client is set for a notification to the call's client;
	// otherwise the record is from the service's own log.
	Level  string `json:"level"`
	Client bool   `json:"client"`
	Logger string `json:"logger,omitzero"`
	// Data has its secrets removed, and is absent if it cannot be read; Cut is set if Data is
	// incomplete.
	Data jsontext.Value `json:"data,omitzero"`
	Cut  bool           `json:"cut,omitzero"`
}

// Filter selects the records that a follower wants. An empty field matches everything.
type Filter struct {
	// Level is the lowest severity, one of mcp.LogLevels.
	Level string `json:"level,omitzero"`
	// Name is the name of the tool, prompt or resource. Call is the beginning of an id.
	Name   string `json:"name,omitzero"`
	Call   string `json:"call,omitzero"`
	Tenant string `json:"tenant,omitzero"`
}

// Limits of requests and of records.
const (
	maxAsked  = 8 << 10
	maxWord   = 2 << 10
	maxRecord = 64 << 10
	// maxData is roughly the most data of one record, in bytes.
	maxData = 8 << 10
)

// Check returns an error for an invalid filter.
func (f Filter) Check() error {
	if f.Level != "" && !slices.Contains(mcp.LogLevels, f.Level) {
		return fmt.Errorf("level %.32q: use one of %v", f.Level, mcp.LogLevels)
	}
	for _, word := range []string{f.Name, f.Call, f.Tenant} {
		if len(word) > maxWord {
			return fmt.Errorf("what to follow has %d bytes; at most %d make a name", len(word), maxWord)
		}
	}
	return nil
}

// request is the message that an operator publishes repeatedly.
type request struct {
	Filter
	// End asks the instance to stop.
	End bool `json:"end,omitzero"`
}

func readRequest(data []byte) (request, bool) {
	var r request
	if len(data) > maxAsked || json.Unmarshal(data, &r) != nil || r.Check() != nil {
		return request{}, false
	}
	return r, true
}

// said is a message of an instance: that it is there, or a record.
type said struct {
	Here   *here   `json:"here,omitzero"`
	Record *Record `json:"record,omitzero"`
}

// here answers each request.
type here struct {
	Service  string `json:"service"`
	Instance string `json:"instance"`
	// Number is the number of the last record, sent or not.
	Number uint64 `json:"number"`
	// New is set if the instance did not know this follower, or had forgotten it: numbers start
	// again.
	New bool `json:"new,omitzero"`
	// Refused: there are too many followers.
	Refused bool `json:"refused,omitzero"`
	// Left is set if the instance stops sending by itself.
	Left bool `json:"left,omitzero"`
}

// readSaid reads a message of an instance. Here is always set: with a record, it has the state
// after the previous one.
func readSaid(data []byte) (said, bool) {
	var s said
	if len(data) > maxRecord || json.Unmarshal(data, &s) != nil || (s.Here == nil) == (s.Record == nil) {
		return said{}, false
	}
	if r := s.Record; r != nil {
		if r.Number == 0 || !slices.Contains(mcp.LogLevels, r.Level) {
			return said{}, false
		}
		s.Here = &here{Service: r.Service, Instance: r.Instance, Number: r.Number - 1}
	}
	return s, subject.Token(s.Here.Service) && subject.Token(s.Here.Instance)
}
