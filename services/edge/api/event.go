package api

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/forms"
)

// Progress is how far a call has come. Total and Message may be absent.
type Progress struct {
	Progress float64 `json:"progress"`
	Total    float64 `json:"total,omitzero"`
	Message  string  `json:"message,omitzero"`
}

// Log is a message that a call logs.
type Log struct {
	Level  string         `json:"level"`
	Logger string         `json:"logger,omitzero"`
	Data   jsontext.Value `json:"data"`
}

// ReadFrame returns the progress or the log of a frame; neither for a frame that is not
// for clients.
func ReadFrame(f *busv1.Frame) (*Progress, *Log) {
	if p := f.GetProgress(); p != nil {
		return &Progress{p.Progress, p.Total, p.Message}, nil
	}
	if l := f.GetLog(); l != nil && l.Level >= 1 && int(l.Level) <= len(mcp.LogLevels) {
		data := jsontext.Value(l.Data)
		if len(data) == 0 {
			data = jsontext.Value("null")
		}
		return nil, &Log{mcp.LogLevels[l.Level-1], l.Logger, data}
	}
	return nil, nil
}

// Event is the content of a frame and its name, progress or log. The name is empty for a
// frame that is not for clients.
func Event(f *busv1.Frame) (name string, data jsontext.Value) {
	var v any
	switch p, l := ReadFrame(f); {
	case p != nil:
		name, v = "progress", p
	case l != nil:
		name, v = "log", l
	default:
		return "", nil
	}
	data, err := json.Marshal(v)
	if err != nil {
		return "", nil
	}
	return name, data
}

// ErrorData are the facts of an error besides its message: its reason, whether the call
// ran, the advice in the words of a door, and further facts that depend on the reason.
func ErrorData(f *fault.Error, door string) map[string]any {
	out := map[string]any{}
	if f.Data != nil {
		var more map[string]jsontext.Value
		if json.Unmarshal(f.Data, &more) == nil {
			for name, v := range more {
				out[name] = v
			}
		}
	}
	out["reason"], out["executed"] = f.Reason, f.Executed
	if next := forms.Next(f, door); next != "" {
		out["next"] = next
	}
	if f.RetryAfter > 0 {
		out["retry_after_ms"] = f.RetryAfter.Milliseconds()
	}
	return out
}
