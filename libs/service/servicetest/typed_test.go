package servicetest_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/libs/service/servicetest"
)

// letter are arguments of a prompt.
type letter struct {
	To    string `json:"to" jsonschema:"who gets it" schema:"minLength=2"`
	Tone  string `json:"tone" schema:"enum=formal|friendly,default=formal,title=Tone"`
	Lines int    `json:"lines,omitzero" schema:"maximum=40"`
	Sign  *bool  `json:"sign"`
}

func text(s string) []mcp.PromptMessage {
	return []mcp.PromptMessage{{Role: "user", Content: mcp.Text(s)}}
}

// The tags of a struct of prompt arguments are shown to clients, checked, used for completion, and
// read.
func TestTypedPrompt(t *testing.T) {
	t.Parallel()
	s := service.New("svc", quietly)
	service.AddPrompt(s, service.Prompt{Name: "letter", Title: "A letter", Complete: map[string]service.CompleteFunc{
		"to": func(_ context.Context, _ *service.Call, typed string, _ map[string]string) ([]string, error) {
			return []string{typed + "da"}, nil
		},
	}}, func(_ context.Context, _ *service.Call, in letter) ([]mcp.PromptMessage, error) {
		return text(fmt.Sprintf("%s %s %d %v", in.To, in.Tone, in.Lines, in.Sign != nil && *in.Sign)), nil
	})
	b := servicetest.Start(t, s)
	same(t, "shown", string(b.Services()[0].Catalogue.Prompts[0].Json), `{"name":"letter","title":"A letter","arguments":[{"name":"to","description":"who gets it","required":true},`+
		`{"name":"tone","title":"Tone"},{"name":"lines"},{"name":"sign"}]}`)
	for _, c := range []struct {
		given map[string]string
		want  string
	}{
		{map[string]string{"to": "Ada"}, "Ada formal 0 false"},
		{map[string]string{"to": "12", "tone": "friendly", "lines": "40", "sign": "true"}, "12 friendly 40 true"},
		{map[string]string{"to": "Ada", "tone": "", "lines": "", "sign": ""}, "Ada formal 0 false"},
	} {
		if got, err := b.Prompt("letter", c.given); err != nil || got[0].Text != c.want {
			t.Errorf("%v: %v, %v", c.given, got, err)
		}
	}
	for want, given := range map[string]map[string]string{
		"arguments.to is required":        {"tone": "formal"},
		"to: minLength: got 1, want 2":    {"to": "A"},
		"tone: value must be one of":      {"to": "Ada", "tone": "rude"},
		`lines: got "many", want integer`: {"to": "Ada", "lines": "many"},
		"lines: maximum: got 41, want 40": {"to": "Ada", "lines": "41"},
		"sign: got null, want boolean":    {"to": "Ada", "sign": "null"},
		"from: there is no such argument": {"to": "Ada", "from": "Bob"},
	} {
		if _, err := b.Prompt("letter", given); !fault.Is(err, fault.InvalidParams) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %s", given, err, want)
		}
	}
	for _, c := range []struct {
		argument, typed string
		want            []string
	}{{"to", "A", []string{"Ada"}}, {"tone", "f", []string{"formal", "friendly"}}, {"tone", "fr", []string{"friendly"}}, {"sign", "t", []string{"true"}}, {"lines", "1", nil}} {
		if got, err := b.CompletePrompt("letter", c.argument, c.typed, nil); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s %s: %q, %v", c.argument, c.typed, got, err)
		}
	}
}

func TestTypedTemplate(t *testing.T) {
	t.Parallel()
	shared := []mcp.ResourceContents{{Text: "one"}, {Blob: []byte{1, 2}}}
	s := service.New("svc", quietly)
	service.AddTemplate(s, service.Template{URITemplate: "shop://{kind}/{id}", Name: "thing", MIMEType: "text/plain"},
		func(_ context.Context, _ *service.Call, vars struct {
			Kind string `json:"kind" schema:"enum=order|bill"`
			ID   int    `json:"id" schema:"minimum=1"`
		}) ([]mcp.ResourceContents, error) {
			switch vars.ID {
			case 404:
				return nil, service.NotFound("there is no %s 404", vars.Kind)
			case 1:
				return shared, nil
			}
			return []mcp.ResourceContents{{URI: "shop://other", MIMEType: "text/html", Text: fmt.Sprint(vars)}}, nil
		})
	b := servicetest.Start(t, s)
	if got, err := b.Read("shop://order/1"); err != nil || len(got) != 2 || got[0].Text != "one" || !slices.Equal(got[1].Blob, []byte{1, 2}) || got[0].URI != "shop://order/1" || got[0].MIMEType != "text/plain" || shared[0].URI != "" {
		t.Errorf("%+v, %v; the handler's own %+v", got, err, shared)
	}
	if got, err := b.Read("shop://bill/7"); err != nil || got[0].URI != "shop://other" || got[0].MIMEType != "text/html" || got[0].Text != "{bill 7}" {
		t.Errorf("%+v, %v", got, err)
	}
	for _, uri := range []string{"shop://order/one", "shop://order/0", "shop://cart/1", "shop://order/404"} {
		if _, err := b.Read(uri); !fault.Is(err, fault.UnknownResource) {
			t.Errorf("%s: %v", uri, err)
		}
	}
	if got, err := b.CompleteResource("shop://{kind}/{id}", "kind", "", nil); err != nil || !slices.Equal(got, []string{"order", "bill"}) {
		t.Errorf("%q, %v", got, err)
	}
}

func TestTypedThatAreWrong(t *testing.T) {
	t.Parallel()
	s := service.New("svc", quietly)
	none := func(context.Context, *service.Call, string, map[string]string) ([]string, error) { return nil, nil }
	service.AddPrompt(s, service.Prompt{Name: "list"}, func(context.Context, *service.Call, struct{ V []string }) ([]mcp.PromptMessage, error) {
		return nil, nil
	})
	service.AddPrompt(s, service.Prompt{Name: "text"}, func(context.Context, *service.Call, string) ([]mcp.PromptMessage, error) { return nil, nil })
	service.AddPrompt(s, service.Prompt{Name: "completed", Complete: map[string]service.CompleteFunc{"w": none}}, func(context.Context, *service.Call, struct{ V string }) ([]mcp.PromptMessage, error) {
		return nil, nil
	})
	service.AddTemplate(s, service.Template{URITemplate: "x://{a}/{b}", Name: "x"}, func(context.Context, *service.Call, struct {
		A string `json:"a"`
	}) ([]mcp.ResourceContents, error) {
		return nil, nil
	})
	_, err := s.Start(t.Context(), bustest.Connect(t, bustest.Server(t)))
	if err == nil {
		t.Fatal("started")
	}
	for _, want := range []string{
		"prompt list: field V is neither text, a number, nor yes or no", "prompt text: arguments must be a struct", "prompt completed: w is completed, and no field",
		"resource template x://{a}/{b}: the template has the variables a, b, and the struct a",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("not said: %s\n%v", want, err)
		}
	}
}

func same(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s\n got %s\nwant %s", what, got, want)
	}
}
