package servicetest_test

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/libs/service/servicetest"
)

// Each kind of failure of a tool reaches the model, with its kind for programs; elsewhere it is an
// error of the protocol.
func TestFailures(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		err                 error
		text, meta          string
		ofResource, ofOther fault.Reason
		data, dataOfOther   string
		after               time.Duration
	}{
		"none": {service.Errorf("no %s", "such"), "no such", "", fault.InvalidParams, fault.InvalidParams, "", "", 0},
		"not found": {service.NotFound("order %d is not there", 7), "order 7 is not there", `{"reason":"not_found"}`,
			fault.UnknownResource, fault.InvalidParams, `{"uri":"f://not_found"}`, "", 0},
		"invalid": {service.Invalid("quantity", "only %d are left", 3), "quantity: only 3 are left", `{"reason":"invalid_params","parameter":"quantity"}`,
			fault.InvalidParams, fault.InvalidParams, `{"detail":"only 3 are left","parameter":"quantity"}`, `{"detail":"only 3 are left","parameter":"quantity"}`, 0},
		"conflict":  {service.Conflict("it has shipped"), "it has shipped", `{"reason":"conflict"}`, fault.Conflict, fault.Conflict, "", "", 0},
		"forbidden": {service.Forbidden("it is not yours"), "it is not yours", `{"reason":"forbidden"}`, fault.Forbidden, fault.Forbidden, "", "", 0},
		"busy": {service.Busy(1500*time.Millisecond, "the shop is full"), "the shop is full; try again in 2 seconds", `{"reason":"unavailable","retryAfterMs":1500}`,
			fault.Unavailable, fault.Unavailable, "", "", 1500 * time.Millisecond},
		"busy for unknown time": {service.Busy(0, "the shop is shut"), "the shop is shut", `{"reason":"unavailable"}`, fault.Unavailable, fault.Unavailable, "", "", 0},
	}
	s := service.New("svc", quietly)
	for name, c := range cases {
		err := errors.Join(errors.New("secret"), c.err) // the wrapping error is not sent
		service.AddTool(s, service.Tool{Name: toolName(name)}, func(context.Context, *service.Call, struct{}) (string, error) { return "", err })
		s.AddResource(mcp.Resource{URI: "f://" + toolName(name), Name: name}, func(context.Context, *service.Call, string, map[string]string) ([]mcp.ResourceContents, error) {
			return nil, err
		})
		s.AddPrompt(mcp.Prompt{Name: name}, func(context.Context, *service.Call, map[string]string) ([]mcp.PromptMessage, error) { return nil, err }, nil)
	}
	b := servicetest.Start(t, s)
	for name, c := range cases {
		meta := ""
		if c.meta != "" {
			meta = `{"io.github.busbar-mcp/failure":` + c.meta + `}`
		}
		if r := b.Call(toolName(name), nil); !r.IsError || r.Err != nil || r.Text != c.text || string(r.Meta) != meta {
			t.Errorf("%s of a tool: %q %s %v", name, r.Text, r.Meta, r.Err)
		}
		_, ofResource := b.Read("f://" + toolName(name))
		_, ofPrompt := b.Prompt(name, nil)
		for what, got := range map[string]struct {
			err    error
			reason fault.Reason
			data   string
		}{"a resource": {ofResource, c.ofResource, c.data}, "a prompt": {ofPrompt, c.ofOther, c.dataOfOther}} {
			if f := fault.From(got.err); f.Reason != got.reason || f.Executed != fault.No || f.Message != c.text || string(f.Data) != got.data || f.RetryAfter != c.after {
				t.Errorf("%s of %s: %+v, data %s", name, what, f, f.Data)
			}
		}
	}
}

func toolName(s string) string {
	name := []byte(s)
	for i, c := range name {
		if c == ' ' {
			name[i] = '_'
		}
	}
	return string(name)
}

// A value that the schema allows but the type of its field does not is refused by name, with the
// expected form.
func TestArgumentsThatDoNotFit(t *testing.T) {
	t.Parallel()
	type fields struct {
		N    int         `json:"n,omitzero"`
		At   time.Time   `json:"at,omitzero"`
		Raw  []byte      `json:"raw,omitzero"`
		Four [4]byte     `json:"four,omitzero"`
		All  []time.Time `json:"all,omitzero"`
		From netip.Addr  `json:"from,omitzero"`
	}
	type arguments struct {
		Of fields `json:"of"`
	}
	s := service.New("svc", quietly)
	service.AddTool(s, service.Tool{Name: "count", ReadOnly: true}, func(_ context.Context, _ *service.Call, in arguments) (int, error) {
		return in.Of.N, nil
	})
	service.AddPrompt(s, service.Prompt{Name: "at"}, func(_ context.Context, _ *service.Call, in struct {
		At time.Time `json:"at"`
	}) ([]mcp.PromptMessage, error) {
		return nil, nil
	})
	b := servicetest.Start(t, s)
	const (
		whole  = "a whole number of at most 64 bits, without a point or an exponent"
		moment = "a date and time as in RFC 3339, such as 2006-01-02T15:04:05Z"
		base64 = "base64, padded with ="
	)
	for name, c := range map[string]struct{ of, want string }{
		"a point":              {`{"n":5.0}`, "/of/n: got 5.0, want " + whole},
		"an exponent":          {`{"n":1e2}`, "/of/n: got 1e2, want " + whole},
		"a large number":       {`{"n":99999999999999999999}`, "/of/n: got 99999999999999999999, want " + whole},
		"no time":              {`{"at":"tomorrow"}`, "/of/at: want " + moment},
		"a day":                {`{"at":"2026-01-02"}`, "/of/at: want " + moment},
		"no time in a list":    {`{"all":["2026-01-02T03:04:05Z","x"]}`, "/of/all/1: want " + moment},
		"no base64":            {`{"raw":"%%"}`, "/of/raw: want " + base64},
		"base64 of no padding": {`{"raw":"eA"}`, "/of/raw: want " + base64},
		"too few bytes":        {`{"four":"eA=="}`, "/of/four: want " + base64 + ", of 4 bytes"},
		"no address":           {`{"from":"x"}`, "/of/from: want a value that the service can read"},
	} {
		t.Run(name, func(t *testing.T) {
			r := b.Call("count", map[string]any{"of": jsontext.Value(c.of)})
			if want := "Invalid arguments: " + c.want; !fault.Is(r.Err, fault.InvalidParams) || r.Err.Error() != want {
				t.Errorf("%v, want %s", r.Err, want)
			}
		})
	}
	if _, err := b.Prompt("at", map[string]string{"at": "tomorrow"}); !fault.Is(err, fault.InvalidParams) || err.Error() != "at: want "+moment {
		t.Errorf("of a prompt: %v", err)
	}
}

// A failure of a nested tool has the same kind in the calling tool.
func TestCallTo(t *testing.T) {
	t.Parallel()
	type rate struct {
		Rate float64 `json:"rate"`
	}
	type currency struct {
		Currency string `json:"currency"`
	}
	rates := service.New("rates", quietly)
	service.AddTool(rates, service.Tool{Name: "rate", ReadOnly: true}, func(_ context.Context, _ *service.Call, in currency) (rate, error) {
		switch in.Currency {
		case "EUR":
			return rate{1.17}, nil
		case "XXX":
			return rate{}, service.NotFound("there is no currency XXX")
		}
		return rate{}, errors.New("secret")
	})
	service.AddTool(rates, service.Tool{Name: "note", ReadOnly: true}, func(context.Context, *service.Call, struct{}) (*service.Result, error) {
		return &service.Result{Content: []mcp.Content{mcp.Text("no value")}}, nil
	})
	shop := service.New("shop", quietly)
	service.AddTool(shop, service.Tool{Name: "price", ReadOnly: true, CallsTools: true}, func(ctx context.Context, c *service.Call, in currency) (rate, error) {
		if in.Currency == "note" {
			return service.CallTo[rate](ctx, c, "note", nil)
		}
		return service.CallTo[rate](ctx, c, "rate", in)
	})
	b := servicetest.Start(t, rates, shop)
	if got, err := servicetest.Call[rate](b, "price", currency{"EUR"}); err != nil || got.Rate != 1.17 {
		t.Errorf("%v %v", got, err)
	}
	if r := b.Call("price", currency{"XXX"}); !r.IsError || r.Text != "rate: there is no currency XXX" || string(r.Meta) != `{"io.github.busbar-mcp/failure":{"reason":"not_found"}}` {
		t.Errorf("%q %s %v", r.Text, r.Meta, r.Err)
	}
	if r := b.Call("price", currency{"secret"}); !fault.Is(r.Err, fault.Internal) {
		t.Errorf("a defect of the other tool: %+v", r)
	}
	if r := b.Call("price", currency{"note"}); !fault.Is(r.Err, fault.Internal) {
		t.Errorf("no structured content: %+v", r)
	}
}
