package service_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
)

func saying(name, text string) service.ServedPrompt {
	return service.ServedPrompt{
		Prompt: mcp.Prompt{Name: name},
		Render: func(context.Context, *service.Call, map[string]string) ([]mcp.PromptMessage, error) {
			return []mcp.PromptMessage{{Role: "user", Content: mcp.Text(text)}}, nil
		},
	}
}

func prompt(name string) *busv1.Request { return &busv1.Request{Method: "prompts/get", Name: name} }

func TestSetPrompts(t *testing.T) {
	t.Parallel()
	s := quiet(t, "prompts")
	s.AddPrompt(mcp.Prompt{Name: "old"}, saying("", "").Render, nil)
	c := run(t, s)
	s.SetPrompts([]service.ServedPrompt{saying("b", "B"), saying("a", "A")})
	if got := c.result(prompt("b")); !strings.Contains(got, `"text":"B"`) {
		t.Error(got)
	}
	if _, err := c.do(prompt("old"), nil); !fault.Is(err, fault.UnknownPrompt) {
		t.Errorf("%v", err)
	}
	bustest.Eventually(t, "edges see both and no other", func() bool {
		all := c.watch.Services()
		if len(all) == 0 {
			return false
		}
		prompts := all[0].Catalogue.GetPrompts()
		return len(prompts) == 2 && prompts[0].Name == "a" && prompts[1].Name == "b"
	})
	s.SetPrompts([]service.ServedPrompt{saying("c", "C"), saying("c", "twice")})
	if got := c.result(prompt("a")); !strings.Contains(got, `"text":"A"`) {
		t.Errorf("a set that is not well formed changes something: %s", got)
	}
}

// An instance that is asked for an unknown prompt first reads the database: another instance may
// have added the prompt.
func TestPromptOfAnotherInstance(t *testing.T) {
	t.Parallel()
	runs := 0
	s := quiet(t, "prompts")
	s.Refresh(time.Hour, func(context.Context) error {
		if runs++; runs > 1 { // not at the start
			s.SetPrompts([]service.ServedPrompt{saying("new", "here")})
		}
		return nil
	})
	c := run(t, s)
	bustest.Eventually(t, "it is found", func() bool {
		frame, err := c.do(prompt("new"), nil)
		return err == nil && strings.Contains(string(frame.GetResult().GetJson()), "here")
	})
}

func TestSampling(t *testing.T) {
	t.Parallel()
	sample := func() *busv1.Request { // a new one each time: a call modifies it
		return &busv1.Request{Method: "sampling/createMessage", Arguments: []byte(`{"maxTokens":5,"messages":[{"role":"user","content":{"type":"text","text":"x"}}]}`)}
	}
	t.Run("a service without a model has none", func(t *testing.T) {
		t.Parallel()
		if _, err := run(t, quiet(t, "none")).do(sample(), nil); !fault.Is(err, fault.MethodNotFound) {
			t.Errorf("%v", err)
		}
	})
	t.Run("a model answers, and edges know of it", func(t *testing.T) {
		t.Parallel()
		s := quiet(t, "model")
		s.HandleSampling(func(_ context.Context, _ *service.Call, p *mcp.CreateMessageParams) (*service.Sampled, error) {
			if p.MaxTokens != 5 || p.Messages[0].Content[0].Text != "x" {
				t.Errorf("%+v", p)
			}
			return &service.Sampled{Role: "assistant", Content: []byte(`{"type":"text","text":"y"}`), Model: "m"}, nil
		})
		c := run(t, s)
		bustest.Eventually(t, "its catalogue says so", func() bool {
			all := c.watch.Services()
			return len(all) == 1 && all[0].Catalogue.GetSamples()
		})
		if got := c.result(sample()); got != `{"role":"assistant","content":{"type":"text","text":"y"},"model":"m"}` {
			t.Error(got)
		}
	})
	t.Run("half an answer is a defect", func(t *testing.T) {
		t.Parallel()
		s := quiet(t, "model")
		s.HandleSampling(func(context.Context, *service.Call, *mcp.CreateMessageParams) (*service.Sampled, error) {
			return &service.Sampled{Role: "assistant"}, nil
		})
		if _, err := run(t, s).do(sample(), nil); !fault.Is(err, fault.Internal) {
			t.Errorf("%v", err)
		}
	})
	t.Run("two models in a service are a mistake", func(t *testing.T) {
		t.Parallel()
		s := quiet(t, "model")
		f := func(context.Context, *service.Call, *mcp.CreateMessageParams) (*service.Sampled, error) {
			return nil, nil
		}
		s.HandleSampling(f)
		s.HandleSampling(f)
		if _, err := s.Start(t.Context(), bustest.Connect(t, bustest.Server(t))); err == nil || !strings.Contains(err.Error(), "added twice") {
			t.Errorf("%v", err)
		}
	})
}

// TestErrorfOutsideOfTools: the text of Errorf reaches the client from any handler, and says that
// nothing ran. Other errors stay hidden, and a call without effects may be repeated after them too.
func TestErrorfOutsideOfTools(t *testing.T) {
	t.Parallel()
	told, secret := fmt.Errorf("secret: %w", service.Errorf("the language must be one of de, en")), errors.New("secret")
	s := quiet(t, "svc")
	for name, err := range map[string]error{"told": told, "secret": secret} {
		s.AddPrompt(mcp.Prompt{Name: name, Arguments: []mcp.PromptArgument{{Name: "a"}}}, func(context.Context, *service.Call, map[string]string) ([]mcp.PromptMessage, error) { return nil, err },
			map[string]service.CompleteFunc{"a": func(context.Context, *service.Call, string, map[string]string) ([]string, error) { return nil, err }})
		s.AddResource(mcp.Resource{URI: "x:" + name, Name: name}, func(context.Context, *service.Call, string, map[string]string) ([]mcp.ResourceContents, error) {
			return nil, err
		})
	}
	c := run(t, s)
	for _, what := range []func(name string) *busv1.Request{
		prompt,
		func(name string) *busv1.Request { return &busv1.Request{Method: "resources/read", Name: "x:" + name} },
		func(name string) *busv1.Request {
			return &busv1.Request{Method: "completion/complete", Name: name, Arguments: []byte(`{"ref":{"type":"ref/prompt","name":"` + name + `"},"argument":{"name":"a","value":""}}`)}
		},
	} {
		if f := c.fails(what("told"), fault.InvalidParams); f.Executed != fault.No || f.Message != "the language must be one of de, en" {
			t.Errorf("%s: executed %s: %s", what("").Method, f.Executed, f.Message)
		}
		if f := c.fails(what("secret"), fault.Internal); f.Executed != fault.No || strings.Contains(f.Message, "secret") {
			t.Errorf("%s: executed %s: %s", what("").Method, f.Executed, f.Message)
		}
	}
}
