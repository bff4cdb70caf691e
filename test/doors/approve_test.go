package doors

import (
	"context"
	"net/http"
	"slices"
	"testing"

	"github.com/go-json-experiment/json"

	gatewayv1 "github.com/busbar-mcp/busbar/gen/busbar/gateway/v1"
)

// approvers are the ways to agree to a call that is held, whatever its door was.
var approvers = []func(ctx context.Context, t *testing.T, w *world, id string) outcome{
	func(ctx context.Context, t *testing.T, w *world, id string) outcome {
		resp, body := w.post(ctx, t, "/approvals/"+id, ada, `{"approve":true}`)
		if resp.StatusCode == http.StatusOK {
			return result(t, body)
		}
		return problem(t, body)
	},
	func(ctx context.Context, t *testing.T, w *world, id string) outcome {
		resp, body := w.post(ctx, t, "/graphql", ada,
			`{"query":"mutation($id:String!){done:approve(id:$id,approve:true){content{text} structured_content is_error}}","variables":{"id":"`+id+`"}}`)
		var r graphQLResponse
		if err := json.Unmarshal(body, &r); err != nil {
			t.Errorf("%d %v\n%s", resp.StatusCode, err, body)
		}
		return r.outcome(t, resp.StatusCode)
	},
	func(ctx context.Context, t *testing.T, w *world, id string) outcome {
		return w.messages(ctx, t, call{token: ada}, `{"type":"approval_response","id":7,"data":{"approval":"`+id+`","approve":true}}`)
	},
	func(ctx context.Context, t *testing.T, w *world, id string) outcome {
		r, err := w.grpc.Approve(withToken(ctx, call{token: ada}), &gatewayv1.ApproveRequest{Approval: id, Approve: true})
		if err != nil {
			return status(t, err)
		}
		return toolResult(t, r.Result)
	},
}

// answerers are the ways to answer what a tool asks, whatever the door of its call was.
var answerers = []func(ctx context.Context, t *testing.T, w *world, id string) outcome{
	func(ctx context.Context, t *testing.T, w *world, id string) outcome {
		resp, body := w.post(ctx, t, "/elicitations/"+id, ada, `{"responses":`+myName+`}`)
		if resp.StatusCode == http.StatusOK {
			return result(t, body)
		}
		return problem(t, body)
	},
	func(ctx context.Context, t *testing.T, w *world, id string) outcome {
		resp, body := w.post(ctx, t, "/graphql", ada,
			`{"query":"mutation($id:String!,$r:JSON!){done:answerElicitation(id:$id,responses:$r){content{text} structured_content is_error}}","variables":{"id":"`+id+`","r":`+myName+`}}`)
		var r graphQLResponse
		if err := json.Unmarshal(body, &r); err != nil {
			t.Errorf("%d %v\n%s", resp.StatusCode, err, body)
		}
		return r.outcome(t, resp.StatusCode)
	},
	func(ctx context.Context, t *testing.T, w *world, id string) outcome {
		return w.messages(ctx, t, call{token: ada}, `{"type":"elicitation_response","id":7,"data":{"elicitation":"`+id+`","responses":`+myName+`}}`)
	},
	func(ctx context.Context, t *testing.T, w *world, id string) outcome {
		stream, err := w.grpc.AnswerElicitation(withToken(ctx, call{token: ada}), &gatewayv1.AnswerElicitationRequest{Elicitation: id, ResponsesText: myName})
		if err != nil {
			t.Fatal(err)
		}
		for {
			m, err := stream.Recv()
			if err != nil {
				return status(t, err)
			}
			if r := m.GetResult(); r != nil {
				return toolResult(t, r)
			}
		}
	},
}

const myName = `{"ask":{"action":"accept","content":{"name":"Ada"}}}`

// answer answers the question of a tool that was called through a door. An answer is valid once.
func (c testcase) answer(ctx context.Context, t *testing.T, w *world, r door, id string) {
	t.Helper()
	by := answerers[slices.IndexFunc(doors, func(d door) bool { return d.name == r.name })%len(answerers)]
	if o := w.patiently(ctx, c.key(r), false, func() outcome { return by(ctx, t, w, id) }); o.text != `{"value":"accept Ada"}` || o.isError || o.reason != "" {
		t.Errorf("answered, it came to %+v", o)
	}
	if o := by(ctx, t, w, id); o.reason != "unknown_elicitation" || o.executed != "unknown" {
		t.Errorf("answered twice, it came to %+v", o)
	}
}

// approve agrees to a call that came through a door, which is good once.
func (c testcase) approve(ctx context.Context, t *testing.T, w *world, r door, id string) {
	t.Helper()
	if n := w.ledger.Runs(c.key(r)); n != 0 {
		t.Errorf("the tool ran %d times before anybody agreed", n)
	}
	by := approvers[slices.IndexFunc(doors, func(d door) bool { return d.name == r.name })%len(approvers)]
	if o := w.patiently(ctx, c.key(r), false, func() outcome { return by(ctx, t, w, id) }); o.text != `{"runs":1}` || o.isError || o.reason != "" {
		t.Errorf("agreed to, it came to %+v", o)
	}
	if o := by(ctx, t, w, id); o.reason != "unknown_approval" || o.executed != "unknown" {
		t.Errorf("agreed to twice, it came to %+v", o)
	}
}
