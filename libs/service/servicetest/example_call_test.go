package servicetest_test

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/libs/service/servicetest"
)

// A long call continues as a task, at any instance.
func Example_taskRequired() {
	s := service.New("renderer", quietly)
	service.AddTool(s, service.Tool{Name: "render", Task: service.TaskRequired, ReadOnly: true},
		func(_ context.Context, call *service.Call, _ struct{}) (string, error) {
			call.Progress(1, 2, "half of it")
			return "rendered", nil
		})
	t := &example{}
	defer t.end()
	fmt.Println(servicetest.Start(t, s).Task("render", nil).Wait().Text)
	// Output: rendered
}

// A tool calls a tool of another service, on behalf of its own caller.
func Example_callCallTool() {
	s := service.New("invoices", quietly)
	service.AddTool(s, service.Tool{Name: "invoice", ReadOnly: true, CallsTools: true},
		func(ctx context.Context, call *service.Call, _ struct{}) (string, error) {
			rate, err := call.CallTool(ctx, service.ToolCall{Name: "rate", Arguments: map[string]any{"currency": "EUR"}})
			if err != nil {
				return "", err
			}
			return "at " + rate.Text(), nil
		})
	t := &example{}
	defer t.end()
	b := servicetest.Start(t, s)
	b.Stub("rate", func([]byte) (any, error) { return "1.17", nil })
	fmt.Println(b.Call("invoice", nil).Text)
	// Output: at 1.17
}

// A person has to agree to each call.
func Example_tool_requiresUserApproval() {
	s := service.New("disks", quietly)
	service.AddTool(s, service.Tool{Name: "wipe", RequiresUserApproval: true},
		func(context.Context, *service.Call, struct{}) (string, error) { return "wiped", nil })
	t := &example{}
	defer t.end()
	b := servicetest.Start(t, s)
	fmt.Println(b.Approve(true).Call("wipe", nil).Text)
	fmt.Println(b.Approve(false).Call("wipe", nil).Err)
	// Output:
	// wiped
	// the user did not approve the call
}

// A service that stores idempotency keys with its data causes each effect once, however often a
// call is repeated. Without KeepsKeys an edge ensures that, for 24 hours.
func Example_callIdempotencyKey() {
	var sent atomic.Int32
	done := map[string]string{} // in a service: a table, written in the transaction of the effect
	s := service.New("mail", quietly)
	service.AddTool(s, service.Tool{Name: "send", KeepsKeys: true}, func(_ context.Context, call *service.Call, _ struct{}) (string, error) {
		if answer, again := done[call.IdempotencyKey()]; again {
			call.Replayed()
			return answer, nil
		}
		answer := fmt.Sprintf("letter %d", sent.Add(1))
		done[call.IdempotencyKey()] = answer
		return answer, nil
	})
	t := &example{}
	defer t.end()
	b := servicetest.Start(t, s).WithKey("k-1")
	fmt.Println(b.Call("send", nil).Text, b.Call("send", nil).Text)
	// Output: letter 1 letter 1
}

// Handlers know their caller.
func Example_callPrincipal() {
	s := service.New("who", quietly)
	service.AddTool(s, service.Tool{Name: "whoami", ReadOnly: true}, func(_ context.Context, call *service.Call, _ struct{}) (string, error) {
		return call.Principal() + " of " + call.Tenant(), nil
	})
	t := &example{}
	defer t.end()
	fmt.Println(servicetest.Start(t, s).As("ada", "acme").Call("whoami", nil).Text)
	// Output: ada of acme
}
