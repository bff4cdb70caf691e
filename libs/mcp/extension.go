package mcp

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ExtensionTasks is the tasks extension: calls that outlive their requests.
const ExtensionTasks = "io.modelcontextprotocol/tasks"

// Declares reports whether a client's capabilities, as it sent them, have an
// extension.
func Declares(capabilities []byte, extension string) bool {
	if len(capabilities) < len(extension) {
		return false // nearly all clients, without a parser
	}
	var c struct {
		Extensions map[string]jsontext.Value `json:"extensions,omitempty"`
		Rest       jsontext.Value            `json:",inline"`
	}
	return json.Unmarshal(capabilities, &c) == nil && c.Extensions[extension].Kind() == '{'
}

// Needs is the data of the error that tells a client to declare an extension.
func Needs(extension string) []byte {
	return []byte(`{"requiredCapabilities":{"extensions":{"` + extension + `":{}}}}`)
}
