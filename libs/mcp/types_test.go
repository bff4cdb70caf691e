package mcp_test

import (
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/libs/mcp"
)

func TestRawContent(t *testing.T) {
	t.Parallel()
	const link = `{"type":"resource_link","uri":"x:1","name":"one","_meta":{"a":1}}`
	if got, err := json.Marshal(mcp.RawContent([]byte(link))); err != nil || string(got) != link {
		t.Errorf("%s, %v", got, err)
	}
	for _, raw := range []string{``, `[]`, `{}`, `{"type":7}`, `{"type":"text"`, `{"type":"text"}x`} {
		if got, err := json.Marshal(mcp.RawContent([]byte(raw))); err == nil {
			t.Errorf("%s became %s", raw, got)
		}
	}
}

func TestContentOnTheWire(t *testing.T) {
	t.Parallel()
	half := 0.5
	noted := mcp.Text("x")
	noted.Annotations = &mcp.Annotations{Audience: []string{"user"}, Priority: &half}
	yes := false
	for name, c := range map[string]struct {
		v    any
		want string
	}{
		"text":        {mcp.Text("a<b&c\n"), `{"type":"text","text":"a<b&c\n"}`},
		"empty text":  {mcp.Text(""), `{"type":"text","text":""}`},
		"annotations": {noted, `{"type":"text","text":"x","annotations":{"audience":["user"],"priority":0.5}}`},
		"image":       {mcp.Image([]byte{1, 2, 3}, "image/png"), `{"type":"image","data":"AQID","mimeType":"image/png"}`},
		"empty image": {mcp.Image(nil, "image/png"), `{"type":"image","data":"","mimeType":"image/png"}`},
		"audio":       {mcp.Audio([]byte{255}, "audio/wav"), `{"type":"audio","data":"/w==","mimeType":"audio/wav"}`},
		"link":        {mcp.Link(mcp.Resource{URI: "file:///a", Name: "a"}), `{"type":"resource_link","uri":"file:///a","name":"a"}`},
		"embedded": {mcp.Embed(mcp.ResourceContents{URI: "u", MIMEType: "text/plain", Text: "t"}),
			`{"type":"resource","resource":{"uri":"u","mimeType":"text/plain","text":"t"}}`},
		"empty text resource": {mcp.ResourceContents{URI: "u"}, `{"uri":"u","text":""}`},
		"blob":                {mcp.ResourceContents{URI: "u", Text: "ignored", Blob: []byte{0}}, `{"uri":"u","blob":"AA=="}`},
		"empty blob":          {mcp.ResourceContents{URI: "u", Blob: []byte{}}, `{"uri":"u","blob":""}`},
		"hint set to false": {mcp.Tool{Name: "t", InputSchema: []byte(`{}`), Annotations: &mcp.ToolAnnotations{DestructiveHint: &yes}},
			`{"name":"t","inputSchema":{},"annotations":{"destructiveHint":false}}`},
		"message": {mcp.PromptMessage{Role: "user", Content: mcp.Text("hi")}, `{"role":"user","content":{"type":"text","text":"hi"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := json.Marshal(c.v)
			if err != nil || string(got) != c.want {
				t.Errorf("got %s, %v\nwant %s", got, err, c.want)
			}
		})
	}
	// A link may carry annotations of its own.
	link := mcp.Link(mcp.Resource{URI: "u", Name: "n"})
	link.Annotations = &mcp.Annotations{Audience: []string{"assistant"}}
	if got, err := json.Marshal(link); err != nil || string(got) != `{"type":"resource_link","uri":"u","name":"n","annotations":{"audience":["assistant"]}}` {
		t.Errorf("link: %s, %v", got, err)
	}
}
