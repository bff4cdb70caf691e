package service_test

import (
	"fmt"
	"strings"
	"testing"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/service"
)

// delivery is a form with a field of every kind.
type delivery struct {
	Note   string   `json:"note,omitzero" jsonschema:"for the driver" schema:"maxLength=20"`
	Reason string   `json:"reason" schema:"enum=broken|wrong|late"`
	Count  int      `json:"count" schema:"minimum=1,default=2"`
	Weight *float64 `json:"weight"`
	Fast   bool     `json:"fast"`
	Extras []string `json:"extras,omitzero" schema:"enum=box|card"`
}

// A form has the fields of its type, in their order, and its answer is checked against them.
func TestAskFor(t *testing.T) {
	t.Parallel()
	s := quiet(t, "svc")
	askingTool(s, "t", func(c *service.Call) (string, error) {
		d, action, err := service.AskFor[delivery](c, "how", "How?")
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("%s %+v", action, d), nil
	})
	askingTool(s, "deep", func(c *service.Call) (string, error) {
		_, _, err := service.AskFor[struct{ V struct{ W int } }](c, "how", "How?")
		return "", err
	})
	c := run(t, s)
	frame, err := c.do(asking(tool("t", `{}`)), nil)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "asked", string(frame.GetInputRequired().GetInputRequests()), `{"how":{"method":"elicitation/create","params":{"message":"How?","mode":"form","requestedSchema":{"type":"object","properties":{`+
		`"note":{"type":"string","description":"for the driver","maxLength":20},"reason":{"type":"string","enum":["broken","wrong","late"]},"count":{"type":"integer","default":2,"minimum":1},`+
		`"weight":{"type":"number"},"fast":{"type":"boolean"},"extras":{"type":"array","items":{"type":"string","enum":["box","card"]}}},"required":["reason","fast"]}}}}`)
	answered := func(answer string) *busv1.Request {
		req := asking(tool("t", `{}`))
		req.InputResponses = []byte(`{"how":` + answer + `}`)
		return req
	}
	for answer, want := range map[string]string{
		`{"action":"accept","content":{"reason":"late","fast":true}}`:                       `accept {Note: Reason:late Count:2 Weight:<nil> Fast:true Extras:[]}`,
		`{"action":"accept","content":{"reason":"late","fast":false,"count":1,"note":"x"}}`: `accept {Note:x Reason:late Count:1 Weight:<nil> Fast:false Extras:[]}`,
		`{"action":"decline"}`: `decline {Note: Reason: Count:0 Weight:<nil> Fast:false Extras:[]}`,
		`{"action":"cancel"}`:  `cancel {Note: Reason: Count:0 Weight:<nil> Fast:false Extras:[]}`,
	} {
		if got := c.result(answered(answer)); !strings.Contains(got, want) {
			t.Errorf("%s: %s", answer, got)
		}
	}
	for answer, want := range map[string]string{
		`{"action":"accept"}`: "/reason: is required",
		`{"action":"accept","content":{"reason":"dull","fast":true}}`: "/reason: value must be one of",
	} {
		if f := c.fails(answered(answer), fault.InvalidParams); !strings.Contains(f.Message, want) {
			t.Errorf("%s: %s", answer, f.Message)
		}
	}
	c.fails(asking(tool("deep", `{}`)), fault.Internal)
}

// asking is a request of a client that can be asked.
func asking(req *busv1.Request) *busv1.Request {
	req.Client = &busv1.Client{Capabilities: []byte(everyCapability)}
	return req
}
