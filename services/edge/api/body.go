package api

import (
	"regexp"
	"strings"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/forms"
)

// OfBody translates an error about the params of a call into the terms of the body that
// the door took instead: it uses the body's member names, and its advice is about that
// body. kind is the method of the call, or forms.Resource. Other errors are returned
// unchanged.
func (c Caller) OfBody(kind string, err error) error {
	return ofBody(kind, c.Door, c.Credentials.Toolset, err)
}

func ofBody(kind, door, set string, err error) error {
	next := forms.OfBody(kind, door)
	if next == "" || !fault.Is(err, fault.InvalidParams) {
		return err
	}
	said := fault.From(err)
	f := *said
	f.Message = inBody(kind, door, f.Message)
	// Calls through a toolset have the usual advice already. A service may know better
	// advice.
	if f.Next == "" || f.Next == forms.NextIn(said.Toward(""), door, set) {
		f.Next = forms.NextIn(said.Toward(next), door, set)
	}
	return &f
}

var (
	ofPrompt   = regexp.MustCompile(`\bparams\.arguments\b\.?`)
	ofSampling = regexp.MustCompile(`^params\.(\w+)`)
	ofResource = regexp.MustCompile(`(^|[ ;])/(text|mimeType)\b`)
)

// inBody translates a message about params, which begins with a place in them, to a body.
func inBody(kind, door, message string) string {
	switch kind {
	case mcp.MethodPromptsGet:
		at := ofPrompt.FindStringIndex(message)
		if at == nil {
			return message
		}
		place := message[at[0]:at[1]]
		return message[:at[0]] + argument(door, strings.HasSuffix(place, ".")) + message[at[1]:]
	case mcp.MethodSample:
		return ofSampling.ReplaceAllStringFunc(message, func(place string) string {
			name := strings.TrimPrefix(place, "params.")
			for here, there := range samplingIn {
				if there == name {
					return here
				}
			}
			return name
		})
	}
	return ofResource.ReplaceAllStringFunc(message, func(place string) string {
		return strings.NewReplacer("text", "content", "mimeType", "mime_type").Replace(place)
	})
}

// argument is the place of a prompt's arguments in a body; if one is set, the prefix of
// one argument's place. The body of plain HTTP holds nothing but the arguments.
func argument(door string, one bool) string {
	switch {
	case door == forms.HTTP && one:
		return ""
	case one:
		return "arguments."
	}
	return "arguments"
}
