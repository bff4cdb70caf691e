package gateway

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/schema"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/edge/store"
)

// maxAsked bounds the questions of a tool, the state that it keeps meanwhile, and the arguments
// of the call, together, in bytes.
//
//limit:message arguments, questions and state of a call that asks, outside MCP | `too_large`
const maxAsked = 128 << 10

// Question is a form that a tool asks its caller to fill in.
type Question struct {
	Message string `json:"message"`
	// Schema of the answer: a flat object.
	Schema jsontext.Value `json:"requested_schema"`
}

// Questions are the forms that a held call asks its caller to fill in, by the keys of the
// answers.
func Questions(held *store.HeldCall) (map[string]Question, error) {
	return readQuestions(held.Requests)
}

// readQuestions reads inputRequests of MCP. Doors that hold calls support forms only, and tell
// services so.
func readQuestions(requests []byte) (map[string]Question, error) {
	var all map[string]struct {
		Method string `json:"method"`
		Params struct {
			Mode    string         `json:"mode,omitzero"`
			Message string         `json:"message,omitzero"`
			Schema  jsontext.Value `json:"requestedSchema,omitzero"`
		} `json:"params,omitzero"`
	}
	if err := json.Unmarshal(requests, &all); err != nil || len(all) == 0 {
		return nil, fault.New(fault.Internal, "the service asked for input in a form that is not MCP's").Because(err)
	}
	forms := make(map[string]Question, len(all))
	for key, q := range all {
		if q.Method != mcp.MethodElicit || cmp.Or(q.Params.Mode, "form") != "form" || q.Params.Schema == nil {
			return nil, fault.New(fault.MissingCapability, "the tool asks for %s, which this door cannot pass on; call it from a client over MCP that can", fault.Clip(q.Method))
		}
		if _, err := schema.Compile(q.Params.Schema); err != nil {
			return nil, fault.New(fault.Internal, "the tool's form is not a valid JSON Schema; report this to the operator of the service").Because(err).Ran(fault.No)
		}
		forms[key] = Question{Message: q.Params.Message, Schema: q.Params.Schema}
	}
	return forms, nil
}

// elicit holds the call until its caller has answered the tool's questions. The error has the
// questions, and the id of the held call.
func (r *run) elicit(ctx context.Context, cfg *Config, asked *busv1.InputRequired) error {
	forms, err := readQuestions(asked.InputRequests)
	switch {
	case err != nil:
		return err
	case cfg.Approvals == nil:
		return fault.New(fault.MissingCapability, "the tool asks its caller something, which this edge cannot keep; call it from a client over MCP that can")
	case len(asked.InputRequests)+len(asked.RequestState)+len(r.Arguments) > maxAsked:
		return fault.New(fault.TooLarge, "the arguments, what the tool asks and what it keeps until it is answered are more than the %d bytes that a door besides MCP's holds; call it from a client over MCP", maxAsked)
	}
	about, who := map[string]any{}, "its caller"
	if r.Approval == nil || r.Approval.Waived || r.Approval.By.ID() == r.Principal.ID() { // otherwise the form would reach someone it is not addressed to
		about["requests"], who = forms, "you"
	}
	until, data, err := r.hold(ctx, cfg, &store.HeldCall{
		For: store.Asked(r.Account), Requests: asked.InputRequests, State: asked.RequestState, // anonymous callers at one address count as one
	}, "elicitation", about)
	if err != nil {
		return err
	}
	return fault.New(fault.InputRequired, "tool %s asks %s something; the call is held for the answer until %s", fault.Clip(r.Name), who, until).With(data)
}

// checkResponses requires an answer to each of the questions, in the form that was asked for. The
// error names the place.
func checkResponses(requests, responses []byte) error {
	var given map[string]jsontext.Value
	if err := json.Unmarshal(responses, &given); err != nil {
		return fault.New(fault.InvalidParams, `responses is an object that has for each of the requests {"action":"accept","content":{…}}, {"action":"decline"} or {"action":"cancel"}`).Because(err)
	}
	return matching("responses.", requests, given, true)
}

// matching requires that answers match the questions of their keys. With all, each question has
// an answer, and each answer a question. at begins the names of the answers in errors.
func matching(at string, questions []byte, given map[string]jsontext.Value, all bool) error {
	var asked map[string]jsontext.Value
	if err := json.Unmarshal(questions, &asked); err != nil {
		return fault.From(err)
	}
	for key := range given {
		if all && asked[key] == nil {
			return fault.New(fault.InvalidParams, "responses has %s, which nobody asked for", fault.Clip(key))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(asked)) {
		if given[key] != nil {
			if err := service.CheckAnswer(at+fault.Clip(key), asked[key], given[key]); err != nil {
				return err
			}
		} else if all {
			return fault.New(fault.InvalidParams, "%s is missing", at+fault.Clip(key))
		}
	}
	return nil
}
