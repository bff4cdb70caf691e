// Package definition compares a service's definitions of a tool over time. A change has a class: whether
// it concerns words, what callers may send, or what the tool may do. Start at Compare.
package definition

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
)

// MaxText is the largest text of a definition that is kept, in bytes. Of a larger one only the digest is
// kept.
const MaxText = 48 << 10

// Definition is a service's definition of a tool at one time.
type Definition struct {
	Tool    string `json:"tool"`
	Service string `json:"service"`
	// Digest identifies Text, in hexadecimal: it is the same at every edge, however the service
	// writes its JSON, and differs after any change.
	Digest string `json:"digest"`
	// Text is a JSON object with the whole definition; nil if that is larger than
	// MaxText.
	Text jsontext.Value `json:"text,omitzero"`
	// Time is when the definition was stored.
	Time time.Time `json:"time,omitzero"`
}

// text is the content of Definition.Text.
type text struct {
	Service string         `json:"service"`
	Entry   jsontext.Value `json:"entry"`
	// InputSchema is the schema of arguments.
	InputSchema jsontext.Value `json:"inputSchema"`
	treatment
}

// treatment describes how calls of the tool are handled, which clients do not see.
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

// Current returns the current definition of a tool. The error is for invalid JSON.
func Current(service string, t *busv1.Tool) (Definition, error) {
	raw, err := json.Marshal(text{service, t.Json, t.InputSchema, treatment{
		t.TimeoutMs, t.CacheMs, t.ReadOnly, t.Idempotent, t.RequiresUserApproval, t.CacheShared, t.CallsTools, t.KeepsKeys,
	}})
	if err != nil {
		return Definition{}, err
	}
	v := jsontext.Value(raw)
	// Numbers stay as written: as doubles, different large numbers would be equal.
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
