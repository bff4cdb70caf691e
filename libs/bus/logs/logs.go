// Package logs lets operators follow what calls log, while they log it. An operator
// asks the instances of services (Follow), which send records for as long as they
// are asked (Tap). Nothing is kept, and without a follower nothing is sent.
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

// Of is whose record it is: the call that logs.
type Of struct {
	// Call is its id as the audit trail has it; Method is the MCP method, Name its tool, prompt or
	// resource.
	Call      string `json:"call"`
	Method    string `json:"method"`
	Name      string `json:"name"`
	Principal string `json:"principal"`
	Tenant    string `json:"tenant,omitzero"`
}

// Record is what a call logs.
type Record struct {
	Time     time.Time `json:"time"`
	Service  string    `json:"service"`
	Instance string    `json:"instance"`
	// Number counts the records of one follower at an instance from 1; one that is
	// missing did not fit.
	Number uint64 `json:"number"`
	Of
	// Level is one of mcp.LogLevels. Client: it is a notification that the call's client
	// may have, too. Otherwise the service's own log has it.
	Level  string `json:"level"`
	Client bool   `json:"client"`
	Logger string `json:"logger,omitzero"`
	// Data is without its secrets, and absent where it cannot be read; Cut says that
	// it is not all.
	Data jsontext.Value `json:"data,omitzero"`
	Cut  bool           `json:"cut,omitzero"`
}

// Filter is what a follower wants. An empty field matches everything.
type Filter struct {
	// Level is the least severe one, of mcp.LogLevels.
	Level string `json:"level,omitzero"`
	// Name is the tool's, the prompt's or the resource's. Call is the beginning of an id.
	Name   string `json:"name,omitzero"`
	Call   string `json:"call,omitzero"`
	Tenant string `json:"tenant,omitzero"`
}

// Bounds of what is asked, and of records.
const (
	maxAsked  = 8 << 10
	maxWord   = 2 << 10
	maxRecord = 64 << 10
	// maxData is how much data one record has, or little more.
	maxData = 8 << 10
)

// Check says what is wrong with a filter.
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

// request is what an operator publishes, again and again.
type request struct {
	Filter
	// End: no more, please.
	End bool `json:"end,omitzero"`
}

func readRequest(data []byte) (request, bool) {
	var r request
	if len(data) > maxAsked || json.Unmarshal(data, &r) != nil || r.Check() != nil {
		return request{}, false
	}
	return r, true
}

// said is what an instance sends: that it is there, or a record.
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
	// New: it did not know this follower, or not any more; its numbers begin.
	New bool `json:"new,omitzero"`
	// Refused: there are too many followers.
	Refused bool `json:"refused,omitzero"`
	// Left: it sends nothing more. Nobody asked for this.
	Left bool `json:"left,omitzero"`
}

// readSaid reads what an instance sends. Here is there in any case: before a record, it
// is as after the one before.
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
