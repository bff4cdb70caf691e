package servicetest_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/libs/service/servicetest"
)

// example replaces the testing.T of a test, so that an example can start a bus.
type example struct{ cleanups []func() }

func (e *example) Helper()                  {}
func (e *example) Context() context.Context { return context.Background() }
func (e *example) Cleanup(f func())         { e.cleanups = append(e.cleanups, f) }
func (e *example) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf(format, args...))
}
func (e *example) end() {
	for _, f := range slices.Backward(e.cleanups) {
		f()
	}
}

var quietly = service.WithLogger(slog.New(slog.DiscardHandler))

func Example_addTool() {
	type greeting struct {
		Name string `json:"name" jsonschema:"whom to greet"`
		Loud bool   `json:"loud,omitzero" jsonschema:"in capitals"`
	}
	type greeted struct {
		Text string `json:"text"`
	}
	s := service.New("hello", service.WithVersion("1.0.0"), quietly)
	service.AddTool(s, service.Tool{Name: "hello", Description: "Greets somebody.", ReadOnly: true},
		func(_ context.Context, _ *service.Call, in greeting) (greeted, error) {
			if in.Name == "" {
				return greeted{}, service.Errorf("whom should I greet? The name is empty")
			}
			return greeted{Text: "Hello, " + in.Name + "!"}, nil
		})
	// In a program: service.Main("hello", build). In a test:
	t := &example{}
	defer t.end()
	b := servicetest.Start(t, s)
	fmt.Println(b.Call("hello", greeting{Name: "Ada"}).Text)
	fmt.Println(b.Call("hello", greeting{}).Text)
	// Output:
	// {"text":"Hello, Ada!"}
	// whom should I greet? The name is empty
}

// A hand-written schema says more than the types of the handler can.
func Example_addTool_handWrittenSchema() {
	type transfer struct {
		Amount int    `json:"amount"`
		To     string `json:"to"`
	}
	s := service.New("bank", quietly)
	service.AddTool(s, service.Tool{
		Name: "transfer",
		InputSchema: []byte(`{
			"type": "object", "required": ["amount", "to"], "additionalProperties": false,
			"properties": {
				"amount": {"type": "integer", "minimum": 1, "maximum": 1000},
				"to": {"type": "string", "pattern": "^[a-z]+$"}
			}}`),
		OutputSchema: []byte(`{"type": "object", "required": ["receipt"], "properties": {"receipt": {"type": "string"}}}`),
	}, func(_ context.Context, _ *service.Call, in transfer) (map[string]string, error) {
		return map[string]string{"receipt": fmt.Sprintf("%d to %s", in.Amount, in.To)}, nil
	})
	t := &example{}
	defer t.end()
	b := servicetest.Start(t, s)
	fmt.Println(b.Call("transfer", transfer{Amount: 5, To: "ada"}).Text)
	fmt.Println(b.Call("transfer", transfer{Amount: 5000, To: "ada"}).Err)
	// Output:
	// {"receipt":"5 to ada"}
	// Invalid arguments: /amount: maximum: got 5,000, want 1,000
}

func Example_callProgress() {
	s := service.New("copier", quietly)
	service.AddTool(s, service.Tool{Name: "copy"}, func(_ context.Context, call *service.Call, _ struct{}) (struct{}, error) {
		for n := range 3 {
			call.Progress(float64(n+1), 3, "page copied")
		}
		return struct{}{}, nil
	})
	t := &example{}
	defer t.end()
	for _, p := range servicetest.Start(t, s).Call("copy", nil).Progress {
		fmt.Println(p.Done, "of", p.Total, p.Message)
	}
	// Output:
	// 1 of 3 page copied
	// 2 of 3 page copied
	// 3 of 3 page copied
}

func Example_callLog() {
	s := service.New("copier", quietly)
	service.AddTool(s, service.Tool{Name: "copy"}, func(_ context.Context, call *service.Call, _ struct{}) (struct{}, error) {
		call.Log("warning", "paper", map[string]any{"sheetsLeft": 3})
		return struct{}{}, nil
	})
	t := &example{}
	defer t.end()
	for _, l := range servicetest.Start(t, s).Call("copy", nil).Logs {
		fmt.Println(l.Level, l.Logger, l.Data)
	}
	// Output: warning paper {"sheetsLeft":3}
}

// A tool asks the user, and runs again from its start with the answer.
func Example_callAsk() {
	s := service.New("tables", quietly)
	service.AddTool(s, service.Tool{Name: "reserve"}, func(_ context.Context, call *service.Call, _ struct{}) (string, error) {
		form := map[string]any{
			"type":       "object",
			"properties": map[string]any{"seats": map[string]any{"type": "integer", "minimum": 1}},
			"required":   []string{"seats"},
		}
		answers, err := call.Ask(service.Elicit("seats", "How many of you are there?", form))
		if err != nil {
			return "", err // unchanged: the call continues when the answer arrives
		}
		var said struct {
			Seats int `json:"seats"`
		}
		switch action, err := answers.Elicited("seats", &said); {
		case err != nil:
			return "", err
		case action != "accept":
			return "", service.Errorf("the user did not say how many seats")
		}
		return fmt.Sprintf("%d seats", said.Seats), nil
	})
	t := &example{}
	defer t.end()
	b := servicetest.Start(t, s)
	fmt.Println(b.Answer("seats", map[string]any{"seats": 4}).Call("reserve", nil).Text)
	fmt.Println(b.Decline("seats").Call("reserve", nil).Text)
	// Output:
	// 4 seats
	// the user did not say how many seats
}

// A tool asks the model of its client.
func Example_sample() {
	s := service.New("titles", quietly)
	service.AddTool(s, service.Tool{Name: "title"}, func(_ context.Context, call *service.Call, _ struct{}) (string, error) {
		answers, err := call.Ask(service.Sample("title", service.Sampling{MaxTokens: 20, SystemPrompt: "Answer with a title."}))
		if err != nil {
			return "", err
		}
		said, err := answers.Sampled("title")
		if err != nil {
			return "", err
		}
		return said.Text(), nil
	})
	t := &example{}
	defer t.end()
	fmt.Println(servicetest.Start(t, s).Answer("title", "One Bus, Many Circuits").Call("title", nil).Text)
	// Output: One Bus, Many Circuits
}
