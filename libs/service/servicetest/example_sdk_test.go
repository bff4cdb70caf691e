package servicetest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/libs/service/servicetest"
)

// A field's tag limits its values, which are checked before the handler runs.
func Example_addTool_schemaTags() {
	type placing struct {
		Item     string `json:"item" jsonschema:"what is ordered" schema:"enum=lamp|chair"`
		Quantity int    `json:"quantity" schema:"minimum=1,maximum=100,default=1"`
	}
	s := service.New("shop", quietly)
	service.AddTool(s, service.Tool{Name: "place"}, func(_ context.Context, _ *service.Call, in placing) (string, error) {
		return fmt.Sprintf("%d of %s", in.Quantity, in.Item), nil
	})
	t := &example{}
	defer t.end()
	b := servicetest.Start(t, s)
	fmt.Println(b.Call("place", `{"item":"lamp"}`).Text)
	fmt.Println(b.Call("place", `{"item":"moon","quantity":101}`).Err)
	// Output:
	// 1 of lamp
	// Invalid arguments: /item: value must be one of 'lamp', 'chair'; /quantity: maximum: got 101, want 100
}

// Each kind of failure has its own function. A model reads the text, a program the reason.
func Example_notFound() {
	s := service.New("shop", quietly)
	service.AddTool(s, service.Tool{Name: "cancel"}, func(_ context.Context, _ *service.Call, in struct {
		ID int `json:"id"`
	}) (string, error) {
		switch in.ID {
		case 1:
			return "", service.Conflict("order 1 has been shipped")
		case 2:
			return "", service.Forbidden("order 2 is not yours")
		case 3:
			return "", service.Invalid("id", "orders have even numbers")
		case 4:
			return "", service.Busy(30*time.Second, "the warehouse counts its shelves")
		}
		return "", service.NotFound("there is no order %d", in.ID)
	})
	t := &example{}
	defer t.end()
	b := servicetest.Start(t, s)
	for id := range 5 {
		fmt.Println(b.Call("cancel", map[string]int{"id": id + 1}).Text)
	}
	fmt.Println(b.Call("cancel", map[string]int{"id": 5}).Meta)
	// Output:
	// order 1 has been shipped
	// order 2 is not yours
	// id: orders have even numbers
	// the warehouse counts its shelves; try again in 30 seconds
	// there is no order 5
	// {"io.github.busbar-mcp/failure":{"reason":"not_found"}}
}

// The user fills in a struct.
func Example_askFor() {
	type table struct {
		Seats int    `json:"seats" jsonschema:"how many of you there are" schema:"minimum=1,maximum=12"`
		Where string `json:"where" schema:"enum=inside|garden,default=inside"`
	}
	s := service.New("tables", quietly)
	service.AddTool(s, service.Tool{Name: "reserve"}, func(_ context.Context, call *service.Call, _ struct{}) (string, error) {
		t, action, err := service.AskFor[table](call, "table", "Which table?")
		if err != nil {
			return "", err // unchanged: the call continues when the answer arrives
		}
		if action != service.Accepted {
			return "", service.Errorf("the user wants no table")
		}
		return fmt.Sprintf("%d seats, %s", t.Seats, t.Where), nil
	})
	t := &example{}
	defer t.end()
	b := servicetest.Start(t, s)
	fmt.Println(b.Answer("table", table{Seats: 4, Where: "garden"}).Call("reserve", nil).Text)
	fmt.Println(b.Decline("table").Call("reserve", nil).Text)
	// Output:
	// 4 seats, garden
	// the user wants no table
}

// The result of another tool is a value; its failure is an error that the handler may return.
func Example_callTo() {
	type rate struct {
		Rate float64 `json:"rate"`
	}
	type of struct {
		Currency string `json:"currency"`
	}
	s := service.New("invoices", quietly)
	service.AddTool(s, service.Tool{Name: "invoice", ReadOnly: true, CallsTools: true},
		func(ctx context.Context, call *service.Call, _ struct{}) (string, error) {
			r, err := service.CallTo[rate](ctx, call, "exchange_rate", of{"EUR"})
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("at %v", r.Rate), nil
		})
	t := &example{}
	defer t.end()
	b := servicetest.Start(t, s)
	servicetest.Stub(b, "exchange_rate", func(in of) (rate, error) {
		if in.Currency != "EUR" {
			return rate{}, errors.New("no such currency")
		}
		return rate{1.17}, nil
	})
	fmt.Println(b.Call("invoice", nil).Text)
	// Output: at 1.17
}

// The arguments of a prompt are a struct; choices complete themselves.
func Example_addPrompt() {
	type letter struct {
		To   string `json:"to" jsonschema:"who gets it"`
		Tone string `json:"tone" schema:"enum=formal|friendly,default=formal"`
	}
	s := service.New("letters", quietly)
	service.AddPrompt(s, service.Prompt{Name: "letter", Description: "Writes a letter."},
		func(_ context.Context, _ *service.Call, in letter) ([]mcp.PromptMessage, error) {
			return []mcp.PromptMessage{{Role: "user", Content: mcp.Text("Write a " + in.Tone + " letter to " + in.To + ".")}}, nil
		})
	t := &example{}
	defer t.end()
	b := servicetest.Start(t, s)
	messages, err := b.Prompt("letter", map[string]string{"to": "Ada"})
	fmt.Println(messages[0].Text, err)
	fmt.Println(b.CompletePrompt("letter", "tone", "fr", nil))
	// Output:
	// Write a formal letter to Ada. <nil>
	// [friendly] <nil>
}

// The variables of a template are a struct.
func Example_addTemplate() {
	s := service.New("shop", quietly)
	service.AddTemplate(s, service.Template{URITemplate: "shop://orders/{id}", Name: "order", MIMEType: "text/plain"},
		func(_ context.Context, _ *service.Call, vars struct {
			ID int `json:"id" schema:"minimum=1"`
		}) ([]mcp.ResourceContents, error) {
			if vars.ID != 1 {
				return nil, service.NotFound("there is no order %d", vars.ID)
			}
			return []mcp.ResourceContents{{Text: "two lamps"}}, nil
		})
	t := &example{}
	defer t.end()
	b := servicetest.Start(t, s)
	contents, err := b.Read("shop://orders/1")
	fmt.Println(contents[0].URI, contents[0].MIMEType, contents[0].Text, err)
	_, err = b.Read("shop://orders/2")
	fmt.Println(err)
	// Output:
	// shop://orders/1 text/plain two lamps <nil>
	// there is no order 2
}

// A handler knows its caller, and its log records show the caller.
func Example_callLogger() {
	log := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == "call" || a.Key == "instance" {
			return slog.Attr{}
		}
		return a
	}}))
	s := service.New("shop", service.WithLogger(log))
	service.AddTool(s, service.Tool{Name: "refund"}, func(_ context.Context, call *service.Call, _ struct{}) (string, error) {
		if !call.Identity().Has("refunds:write") {
			return "", service.Forbidden("a refund needs the scope refunds:write")
		}
		call.Logger().Info("refunded", "amount", 7)
		return "done", nil
	})
	t := &example{}
	defer t.end()
	b := servicetest.Start(t, s)
	fmt.Println(b.As("bob", "acme").Call("refund", nil).Text)
	fmt.Println(b.As("ada", "acme", "refunds:write").Call("refund", nil).Text)
	// Output:
	// level=INFO msg="service is on the bus" service=shop version=0.0.0
	// a refund needs the scope refunds:write
	// level=INFO msg=refunded service=shop tool=refund principal=ada tenant=acme amount=7
	// done
}

// Edges give a service's instructions for models to clients as they connect.
func Example_withInstructions() {
	s := service.New("shop", quietly, service.WithInstructions("Orders are in euros. Ask shop_find for an id before you change one."))
	t := &example{}
	defer t.end()
	fmt.Println(servicetest.Start(t, s).Instructions("shop"))
	// Output: Orders are in euros. Ask shop_find for an id before you change one.
}

// Middleware stands around every handler of a service.
func Example_withMiddleware() {
	counted := func(ctx context.Context, call *service.Call, next func(context.Context) error) error {
		err := next(ctx)
		fmt.Println(call.Method(), call.Name(), "error:", err)
		return err
	}
	s := service.New("shop", quietly, service.WithNamespace("shop"), service.WithMiddleware(counted))
	service.AddTool(s, service.Tool{Name: "open", ReadOnly: true}, func(ctx context.Context, _ *service.Call, _ struct{}) (string, error) {
		call, _ := service.FromContext(ctx) // wherever only the context is at hand
		return "for " + call.Principal(), nil
	})
	t := &example{}
	defer t.end()
	fmt.Println(servicetest.Start(t, s).As("ada", "").Call("shop_open", nil).Text)
	// Output:
	// tools/call shop_open error: <nil>
	// for ada
}

// Two versions of a tool are served side by side; the newest has the plain name.
func Example_tool_version() {
	s := service.New("shop", quietly)
	service.AddTool(s, service.Tool{Name: "price", Version: 1, ReadOnly: true}, func(context.Context, *service.Call, struct{}) (int, error) {
		return 7, nil
	})
	service.AddTool(s, service.Tool{Name: "price", Version: 2, ReadOnly: true}, func(context.Context, *service.Call, struct{}) (string, error) {
		return "7 EUR", nil
	})
	t := &example{}
	defer t.end()
	b := servicetest.Start(t, s)
	fmt.Println(b.Call("price", nil).Text, b.Call("price_v1", nil).Text)
	// Output: 7 EUR 7
}

// Content and _meta are passed on unchanged, for example from another server.
func Example_result() {
	s := service.New("proxy", quietly)
	service.AddTool(s, service.Tool{Name: "look", ReadOnly: true}, func(context.Context, *service.Call, struct{}) (*service.Result, error) {
		return &service.Result{
			Content: []mcp.Content{mcp.Text("see"), mcp.RawContent([]byte(`{"type":"resource_link","uri":"docs://1","name":"one","_meta":{"rank":1}}`))},
			Meta:    map[string]any{"example.com/source": "upstream"},
		}, nil
	})
	t := &example{}
	defer t.end()
	r := servicetest.Start(t, s).Call("look", nil)
	fmt.Println(r.Content)
	fmt.Println(r.Meta)
	// Output:
	// [{"type":"text","text":"see"},{"type":"resource_link","uri":"docs://1","name":"one","_meta":{"rank":1}}]
	// {"example.com/source":"upstream"}
}

// Try adds definitions from elsewhere: invalid ones are left out and named.
func Example_try() {
	type definition struct{ name, schema string }
	s := service.New("bridge", quietly)
	for _, d := range []definition{{"look", `{"type":"object"}`}, {"act", `{"type":"objekt"}`}} {
		tool := service.Tool{Name: d.name, InputSchema: []byte(d.schema), Meta: map[string]any{"example.com/from": "upstream"}}
		err := s.Try(func() {
			s.AddTool(tool, func(_ context.Context, call *service.Call, arguments []byte) (*service.Result, error) {
				return &service.Result{Content: []mcp.Content{mcp.Text(call.Name() + " " + string(arguments))}}, nil
			})
		})
		if err != nil {
			fmt.Println("left out:", strings.Split(err.Error(), ":")[0])
		}
	}
	t := &example{}
	defer t.end()
	fmt.Println(servicetest.Start(t, s).Call("look", `{"at":7}`).Text)
	// Output:
	// left out: tool act
	// look {"at":7}
}
