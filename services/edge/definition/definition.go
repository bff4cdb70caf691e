// Package definition is what a service says of a tool, and what a change of that
// means: whether its words differ, what callers may send, or what it may do.
package definition

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
)

// MaxText bounds the text of a definition that is kept, bytes. Of a larger one only the
// digest is.
const MaxText = 48 << 10

// Definition is what a service said of a tool, at one time.
type Definition struct {
	Tool    string `json:"tool"`
	Service string `json:"service"`
	// Digest stands for Text, hexadecimal: the same at every edge, however the service
	// writes its JSON, and another after any change.
	Digest string `json:"digest"`
	// Text is a JSON object of all that the service said; none where that is larger
	// than MaxText.
	Text jsontext.Value `json:"text,omitzero"`
	// Time is when that was kept.
	Time time.Time `json:"time,omitzero"`
}

// text is what Definition.Text holds.
type text struct {
	Service string         `json:"service"`
	Entry   jsontext.Value `json:"entry"`
	// InputSchema is what arguments are held against.
	InputSchema jsontext.Value `json:"inputSchema"`
	treatment
}

// treatment is how calls of the tool are treated, which clients do not see.
type treatment struct {
	TimeoutMS        uint32 `json:"timeoutMs"`
	CacheMS          uint32 `json:"cacheMs"`
	ReadOnly         bool   `json:"readOnly"`
	Idempotent       bool   `json:"idempotent"`
	RequiresApproval bool   `json:"requiresApproval"`
	CacheShared      bool   `json:"cacheShared"`
	CallsTools       bool   `json:"callsTools"`
	KeepsKeys        bool   `json:"keepsKeys"`
}

// Of is what a service says of a tool now. The error is for what is no JSON.
func Of(service string, t *busv1.Tool) (Definition, error) {
	raw, err := json.Marshal(text{service, t.Json, t.InputSchema, treatment{
		t.TimeoutMs, t.CacheMs, t.ReadOnly, t.Idempotent, t.RequiresUserApproval, t.CacheShared, t.CallsTools, t.KeepsKeys,
	}})
	if err != nil {
		return Definition{}, err
	}
	v := jsontext.Value(raw)
	// Numbers stay as they are written: those beyond 64 bits would be alike as doubles.
	if err := v.Format(jsontext.ReorderRawObjects(true), jsontext.Multiline(false)); err != nil {
		return Definition{}, err
	}
	sum := sha256.Sum256(v)
	d := Definition{Tool: t.Name, Service: service, Digest: hex.EncodeToString(sum[:]), Text: v}
	if len(v) > MaxText {
		d.Text = nil
	}
	return d, nil
}
