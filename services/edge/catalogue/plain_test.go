package catalogue_test

import (
	"fmt"
	"strings"
	"testing"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
)

// TestB1PlainSchemas: an announcement of a service in any language reaches clients in a form that
// they accept, or at least does not hide the tools of others.
func TestB1PlainSchemas(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	live := watch(t, url)
	shown := func(name, members string) *busv1.Tool {
		return &busv1.Tool{Name: name, Json: fmt.Appendf(nil, `{"name":%q,%s}`, name, members), InputSchema: []byte(`{"type":"object"}`)}
	}
	const input = `"inputSchema":{"type":"object"}`
	c := tools("svc", "good")
	c.Tools = append(c.Tools,
		&busv1.Tool{
			Name: "loose", InputSchema: []byte(`{"type":"object","properties":{"a":true}}`),
			Json: []byte(`{"name":"loose","annotations":{"readOnlyHint":true},"inputSchema":{"type":"object","properties":{"a":true}},"outputSchema":{"type":"object","properties":{"b":false,"c":{"items":true}},"additionalProperties":false}}`),
		},
	)
	bad := map[string]string{
		"title":      `"title":7,` + input,
		"annotated":  `"annotations":[],` + input,
		"icons":      `"icons":{},` + input,
		"described":  `"description":true,` + input,
		"nothing":    `"title":"no schema"`,
		"input":      `"inputSchema":{"type":"array"}`,
		"boolean":    `"inputSchema":true`,
		"output":     input + `,"outputSchema":{"type":"nonsense"}`,
		"outside":    input + `,"outputSchema":{"type":"object","properties":{"a":{"$ref":"https://example.com/x"}}}`,
		"flags":      input + `,"outputSchema":{"type":"object","properties":{"a":{"pattern":"a(?i)b"}}}`,
		"anchors":    input + `,"outputSchema":{"type":"object","properties":{"a":{"pattern":"\\Ab\\z"}}}`,
		"properties": input + `,"outputSchema":{"type":"object","properties":true}`,
	}
	for name, members := range bad {
		c.Tools = append(c.Tools, shown(name, members))
	}
	announce(t, url, c)
	announce(t, url, tools("other", "theirs"))
	becomes(t, live, "good loose theirs")
	now := live.Now()
	entry, ok := now.Entry(catalogue.Tools, "loose")
	for _, want := range []string{`"properties":{"a":{}}`, `"b":{"not":{}}`, `"c":{"items":{}}`, `"additionalProperties":false`, `"readOnlyHint":true`} {
		if !ok || !strings.Contains(string(entry), want) {
			t.Errorf("no %s in %s", want, entry)
		}
	}
	mended := strings.Join(now.Mended(), "\n")
	for _, at := range []string{"/inputSchema/properties/a", "/outputSchema/properties/b", "/outputSchema/properties/c/items"} {
		if !strings.Contains(mended, `tool "loose" of service svc: `+at) {
			t.Errorf("%s is not named in %s", at, mended)
		}
	}
	if len(now.Mended()) != 3 {
		t.Errorf("%d are counted: %s", len(now.Mended()), mended)
	}
	problems := strings.Join(now.Problems(), "\n")
	for name := range bad {
		if !strings.Contains(problems, `tool "`+name+`" of service svc is left out`) {
			t.Errorf("%s is not named in %s", name, problems)
		}
	}
	if target, ok := now.Tool("loose"); !ok || target.Tool.Schema.Validate([]byte(`{"a":[1]}`)) != nil || target.Tool.Output.Validate([]byte(`{"b":1}`)) == nil {
		t.Error("the schema means something else now")
	}
}
