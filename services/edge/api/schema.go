package api

// Schemas of OpenAPI that only one operation has; openapi.json has the others by name.
const (
	object         = `{"type":"object"}`
	texts          = `{"type":"object","additionalProperties":{"type":"string"}}`
	decision       = `{"type":"object","required":["approve"],"properties":{"approve":{"type":"boolean"}}}`
	batchBody      = `{"type":"object","required":["calls"],"properties":{"calls":{"type":"array","maxItems":10000,"items":{"$ref":"#/components/schemas/BatchCall"}},"parallel":{"type":"integer","minimum":0,"maximum":1024}}}`
	promptResult   = `{"type":"object","required":["messages"],"properties":{"description":{"type":"string"},"messages":{"type":"array","items":{"$ref":"#/components/schemas/Message"}}}}`
	samplingBody   = `{"type":"object","required":["messages","max_tokens"],"properties":{"messages":{"type":"array","items":{"$ref":"#/components/schemas/Message"}},"max_tokens":{"type":"integer"},"temperature":{"type":"number"},"system_prompt":{"type":"string"},"stop_sequences":{"type":"array","items":{"type":"string"}},"model_preferences":{"type":"object"}}}`
	samplingResult = `{"type":"object","required":["role","content","model"],"properties":{"role":{"type":"string"},"content":{},"model":{"type":"string"},"stop_reason":{"type":"string"}}}`
	identitySchema = `{"type":"object","required":["principal","roles"],"properties":{"principal":{"type":"string"},"tenant":{"type":"string"},"roles":{"type":"array","items":{"type":"string"}},"scopes":{"type":"array","items":{"type":"string"}},"program":{"type":"boolean"},"expires":{"type":"string","format":"date-time"},"credential":{"type":"string"}}}`
)

// ref is a schema that openapi.json has by a name.
func ref(name string) string { return `{"$ref":"#/components/schemas/` + name + `"}` }

// listed is an object with all entries of a list, listOf one with a page of them.
func listed(member, entry string) string { return list(member, entry, "") }
func listOf(member, entry string) string {
	return list(member, entry, `,"next_cursor":{"type":"string"}`)
}

func list(member, entry, more string) string {
	return `{"type":"object","required":["` + member + `"],"properties":{"` + member + `":{"type":"array","items":` + entry + `}` + more + `}}`
}
