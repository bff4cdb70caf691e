package tenants

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	gatewayv1 "github.com/busbar-mcp/busbar/gen/busbar/gateway/v1"
	"github.com/busbar-mcp/busbar/libs/bustest"
)

// approvals are the ways to a call that is held.
var approvals = map[string]func(t *testing.T, w *world, token, id string) answer{
	"look": func(t *testing.T, w *world, token, id string) answer {
		return w.do(t, token, "GET", "/approvals/"+id, "")
	},
	"approve": func(t *testing.T, w *world, token, id string) answer {
		return w.do(t, token, "POST", "/approvals/"+id, `{"approve":true}`)
	},
	"deny": func(t *testing.T, w *world, token, id string) answer {
		return w.do(t, token, "POST", "/approvals/"+id, `{"approve":false}`)
	},
	"GraphQL, approve": func(t *testing.T, w *world, token, id string) answer {
		return w.do(t, token, "POST", "/graphql", `{"query":"mutation{approve(id:\"`+id+`\",approve:true){is_error}}"}`)
	},
	"gRPC, look": func(t *testing.T, w *world, token, id string) answer {
		r, err := w.edges[1].grpc.GetApproval(md(t, token), &gatewayv1.GetApprovalRequest{Approval: id})
		return said(r.String(), err)
	},
	"gRPC, approve": func(t *testing.T, w *world, token, id string) answer {
		r, err := w.edges[1].grpc.Approve(md(t, token), &gatewayv1.ApproveRequest{Approval: id, Approve: true})
		return said(r.String(), err)
	},
	"gRPC, deny": func(t *testing.T, w *world, token, id string) answer {
		r, err := w.edges[1].grpc.Approve(md(t, token), &gatewayv1.ApproveRequest{Approval: id})
		return said(r.String(), err)
	},
	"/ws": func(t *testing.T, w *world, token, id string) answer {
		if token == nobody {
			return answer{status: http.StatusUnauthorized} // it does not get that far: see test/doors
		}
		s := w.socket(t, token, "/ws", "")
		s.send(`{"type":"approval_response","id":7,"data":{"approval":"` + id + `","approve":true}}`)
		return s.until(`"id":7`)
	},
}

// heldLists are the ways to list them.
var heldLists = map[string]func(t *testing.T, w *world, token string) string{
	"REST": func(t *testing.T, w *world, token string) string { return w.do(t, token, "GET", "/approvals", "").body },
	"gRPC": func(t *testing.T, w *world, token string) string {
		r, err := w.edges[1].grpc.ListApprovals(md(t, token), &gatewayv1.ListApprovalsRequest{})
		return fmt.Sprint(r, err)
	},
}

func TestHeldCalls(t *testing.T) {
	w := together.Use(t)
	t.Parallel()
	a := w.tool(t, ada, "approved", `{"key":"held"}`)
	id := a.member("data.approval")
	if a.status != http.StatusAccepted && id == "" {
		t.Fatalf("%d %s", a.status, a.body)
	}
	for way, try := range approvals {
		for _, token := range strangers {
			asUnknown(t, way, token, id, never(id), func(id string) answer { return try(t, w, token, id) })
		}
	}
	for way, list := range heldLists {
		for _, token := range strangers {
			if got := list(t, w, token); strings.Contains(got, id) {
				t.Errorf("%s: %q sees %s", way, token, got)
			}
		}
		if got := list(t, w, again); !strings.Contains(got, id) {
			t.Errorf("%s: its own principal sees %s", way, got)
		}
	}
	if n := w.ledger.Runs("held"); n != 0 {
		t.Fatalf("a stranger had it run %d times", n)
	}
	if a := approvals["look"](t, w, again, id); a.status != http.StatusOK {
		t.Errorf("its own principal looks: %d %s", a.status, a.body)
	}
	if a := approvals["approve"](t, w, again, id); a.status != http.StatusOK || w.ledger.Runs("held") != 1 {
		t.Errorf("its own principal agrees: %d %s", a.status, a.body)
	}
}

// Each principal's idempotency keys are its own.
func TestIdempotencyKeys(t *testing.T) {
	w := together.Use(t)
	t.Parallel()
	// ada, again with another token, is the same; the last two run together.
	for i, token := range []string{ada, amy, bob, "beta:ada", "ac:meada", "acm:eada"} {
		key := fmt.Sprintf("of %d", i)
		for range 2 {
			a := w.tool(t, token, "append", `{"key":"`+key+`"}`, "Idempotency-Key", "one key")
			if a.status != http.StatusOK || !a.says(`"runs":1`) {
				t.Errorf("%s: %d %s", token, a.status, a.body)
			}
		}
		if n := w.ledger.Runs(key); n != 1 {
			t.Errorf("%s: ran %d times", token, n)
		}
	}
	if a := w.tool(t, again, "append", `{"key":"of 0"}`, "Idempotency-Key", "one key"); a.header.Get("Idempotency-Replayed") != "true" || w.ledger.Runs("of 0") != 1 {
		t.Errorf("another token of the same principal: %d %v %s", a.status, a.header, a.body)
	}
	// Keys that a service keeps itself.
	for _, token := range []string{ada, bob} {
		for range 2 {
			if a := w.tool(t, token, "create_resource", `{"uri":"note://keyed","text":"of `+token+`"}`, "Idempotency-Key", "kept"); a.status != http.StatusOK {
				t.Errorf("%s: %d %s", token, a.status, a.body)
			}
			if a := w.tool(t, token, "create_prompt", "{"+definition("keyed", token)+"}", "Idempotency-Key", "kept too"); a.status != http.StatusOK {
				t.Errorf("%s: %d %s", token, a.status, a.body)
			}
		}
		if a := w.do(t, token, "GET", "/resources?uri=note://keyed", ""); !a.says("of " + token) {
			t.Errorf("%s reads %s", token, a.body)
		}
	}
}

// Kept results of one principal are not shown to another.
func TestKeptResults(t *testing.T) {
	w := together.Use(t)
	t.Parallel()
	first := map[string]string{}
	for _, token := range []string{ada, bob, amy, "beta:ada", "ac:meada", "acm:eada", ada, bob} {
		a := w.must(t, token, "cached", `{"x":1}`)
		if got := a.member("structured_content.who"); got != strings.ReplaceAll(token, ":", "/") {
			t.Errorf("%s is told of %s", token, got)
		}
		if before := first[token]; before != "" && before != a.body {
			t.Errorf("%s: nothing is kept", token)
		}
		first[token] = a.body
	}
	if a := w.must(t, again, "cached", `{"x":1}`); a.body != first[ada] {
		t.Errorf("another token of the same principal: %s", a.body)
	}
}

func TestTasks(t *testing.T) {
	w := together.Use(t)
	t.Parallel()
	begun := w.modern(t, ada, "tools/call", "job", `"name":"job","arguments":{"ms":1500}`)
	id := begun.member("result.taskId")
	if id == "" {
		t.Fatalf("%d %s", begun.status, begun.body)
	}
	for _, method := range []string{"tasks/get", "tasks/cancel", "tasks/update"} {
		for _, token := range strangers {
			asUnknown(t, method, token, id, never(id), func(id string) answer {
				return w.modern(t, token, method, id, `"taskId":"`+id+`","inputResponses":{}`)
			})
		}
	}
	for _, token := range []string{bob, amy} {
		asUnknown(t, "subscriptions/listen", token, id, never(id), func(id string) answer {
			s := w.stream(t, 0, token, "POST", "/mcp", `{"jsonrpc":"2.0","id":9,"method":"subscriptions/listen","params":{"notifications":{"taskIds":["`+id+`"]},`+meta+`}}`,
				"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "subscriptions/listen")
			defer s.close()
			a := s.data("acknowledged")
			if strings.Contains(a.body, id) {
				t.Errorf("%s follows the task: %s", token, a.body)
			}
			return answer{status: http.StatusNotFound, body: a.body}
		})
	}
	bustest.Eventually(t, "it ends as it would have", func() bool { return w.modern(t, again, "tasks/get", id, `"taskId":"`+id+`"`).says(`"completed"`) })
}

// A tool calls others as its caller, and as nobody else.
func TestToolsThatCallTools(t *testing.T) {
	w := together.Use(t)
	t.Parallel()
	w.must(t, ada, "create_resource", `{"uri":"note://acme","text":"ACME ONLY"}`)
	for _, token := range []string{ada, bob} {
		if a := w.must(t, token, "forward", `{"name":"who","args":{}}`); !a.says(strings.ReplaceAll(token, ":", "/")) {
			t.Errorf("%s: %s", token, a.body)
		}
	}
	if a := w.tool(t, ada, "forward", `{"name":"read_resource","args":{"uri":"note://acme"}}`); !a.says("ACME ONLY") {
		t.Errorf("%d %s", a.status, a.body)
	}
	asUnknown(t, "read_resource through a tool", bob, "note://acme", "note://acmf", func(uri string) answer {
		return w.tool(t, bob, "forward", `{"name":"read_resource","args":{"uri":"`+uri+`"}}`)
	})
}
