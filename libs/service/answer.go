package service

import (
	"errors"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/schema"
)

// CheckAnswer checks a client's answer against the input request that it answers, both in wire
// format. at is the place of the answer in the client's terms. A task asks under a key only once,
// so an edge checks an answer before it accepts it. The error is meant for the client.
func CheckAnswer(at string, request, answer []byte) error {
	var asked struct {
		Method string `json:"method"`
		Params struct {
			Form jsontext.Value `json:"requestedSchema,omitzero"`
		} `json:"params,omitzero"`
	}
	if err := json.Unmarshal(request, &asked); err != nil {
		return fault.New(fault.Internal, "the service asked for input in a form that is not MCP's").Because(err)
	}
	q := Question{method: asked.Method}
	if asked.Params.Form != nil {
		q.form = asked.Params.Form
	}
	if err := q.check(answer); err != nil {
		return badAnswer(at, err)
	}
	return nil
}

// check checks a client's answer against the question: clients are not trusted to have validated
// what their users typed.
func (q Question) check(raw []byte) error {
	switch q.method {
	case mcp.MethodElicit:
		return q.checkElicited(raw)
	case mcp.MethodSample:
		var s Sampled
		if err := json.Unmarshal(raw, &s); err != nil {
			return err
		}
		if s.Role == "" || s.Model == "" || len(s.Content) == 0 {
			return errors.New("a model's answer needs role, model and content")
		}
	case mcp.MethodRoots:
		var r struct {
			Roots *[]Root `json:"roots"`
		}
		if err := json.Unmarshal(raw, &r); err != nil {
			return err
		}
		if r.Roots == nil {
			return errors.New("an answer to roots/list needs roots")
		}
	}
	return nil
}

func (q Question) checkElicited(raw []byte) error {
	var e elicited
	if err := json.Unmarshal(raw, &e); err != nil {
		return err
	}
	switch e.Action {
	case "decline", "cancel":
		return nil
	case "accept":
	default:
		return errors.New("action is neither accept, decline nor cancel")
	}
	if q.form == nil {
		return nil
	}
	s, err := q.formSchema()
	if err != nil {
		return err
	}
	content := e.Content
	if len(content) == 0 {
		content = jsontext.Value("{}")
	}
	return s.Validate(content)
}

// elicited is an ElicitResult.
type elicited struct {
	Action  string         `json:"action"`
	Content jsontext.Value `json:"content,omitzero"`
}

func (q Question) formSchema() (*schema.Schema, error) {
	wanted, err := marshal(q.form)
	if err != nil {
		return nil, err
	}
	return schema.Compile(wanted)
}
