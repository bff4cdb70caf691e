package protocol_test

import (
	"bytes"
	"math"
	"slices"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/protocol"
)

// members reads an object; false for anything else.
func members(b []byte) (map[string]jsontext.Value, bool) {
	var o map[string]jsontext.Value
	if len(b) == 0 {
		return nil, true // a service may leave it out
	}
	if json.Unmarshal(b, &o) != nil || o == nil {
		return nil, false
	}
	return o, true
}

func has(o map[string]jsontext.Value, names ...string) bool {
	for _, n := range names {
		if _, ok := o[n]; ok {
			return true
		}
	}
	return false
}

// FuzzSplice puts a service's bytes into a response: JSON objects come out unchanged, and nothing
// ends a line.
func FuzzSplice(f *testing.F) {
	f.Add([]byte(`1`), []byte(`{"content":[]}`), []byte(`{"a":1}`), mcp.MethodToolsCall)
	f.Add([]byte(`"a\"\u0062"`), []byte("{\r\n \"a\": \"{}}\" \n}"), []byte("{\n}"), mcp.MethodResourcesRead)
	f.Add([]byte(`0`), []byte(`{}`), []byte(``), mcp.MethodResourcesRead)
	f.Add([]byte(`0`), []byte(``), []byte(` { } `), mcp.MethodPromptsGet)
	f.Add([]byte(`0`), []byte(" {\t\"x\":{\"y\":[1,{}]}}\n"), []byte(`{"z":{}}`), mcp.MethodToolsCall)
	f.Add([]byte(`0`), []byte(`{"a":1}`), []byte("{\"b\":1,\r\n\"c\":2}"), mcp.MethodToolsCall)
	f.Add([]byte(`0`), []byte("}\n{"), []byte(`[`), mcp.MethodToolsCall)
	s := server(f)
	f.Fuzz(func(t *testing.T, id, body, meta []byte, method string) {
		if m, err := mcp.Parse(append(append([]byte(`{"jsonrpc":"2.0","method":"ping","id":`), id...), '}'), mcp.Limits{}); err != nil || !bytes.Equal(m.ID, id) {
			return
		}
		in, bodyOK := members(body)
		own, metaOK := members(meta)
		for _, version := range []string{mcp.Modern, mcp.V20251125} {
			x := &responder{}
			r := &protocol.Request{Message: &mcp.Message{Kind: mcp.Request, ID: id, Method: method}, Version: version}
			s.Answer(r, x, &gateway.Answer{Result: &busv1.Result{Json: bytes.Clone(body), Meta: bytes.Clone(meta)}})
			if len(x.responded) != 1 || bytes.ContainsAny(x.responded[0], "\r\n") {
				t.Fatalf("responses %q", x.responded)
			}
			if !bodyOK || !metaOK || has(in, "resultType", "_meta", "ttlMs", "cacheScope") || has(own, mcp.MetaServerInfo) {
				continue // breaks the contract on the bus
			}
			o := object(t, x.responded[0])
			result := object(t, o["result"])
			if !bytes.Equal(o["id"], id) || string(o["jsonrpc"]) != `"2.0"` || len(o) != 3 {
				t.Errorf("response %q", x.responded[0])
			}
			same(t, in, result)
			if len(own) > 0 {
				same(t, own, object(t, result["_meta"]))
			}
			if version != mcp.Modern && len(result) != len(in)+min(1, len(own)) {
				t.Errorf("a legacy result with more than it had: %s", o["result"])
			}
			if version == mcp.Modern && (string(result["resultType"]) != `"complete"` || has(result, "ttlMs") != (method == mcp.MethodResourcesRead)) {
				t.Errorf("result %s", o["result"])
			}
		}
	})
}

// same requires every member of in to be in out, equal except for blanks.
func same(t *testing.T, in, out map[string]jsontext.Value) {
	t.Helper()
	for name, v := range in {
		want, got := v.Clone(), out[name].Clone()
		if want.Compact() != nil || got.Compact() != nil || !bytes.Equal(want, got) {
			t.Errorf("member %q became %q, was %q", name, out[name], v)
		}
	}
}

// FuzzNotification puts texts of a service into notifications and errors.
func FuzzNotification(f *testing.F) {
	f.Add("text", []byte(`{"a":1}`), 0.5, 1e300)
	f.Add("\xff\n\"", []byte("[1,\n2]"), math.Inf(1), math.NaN())
	f.Add("\u2028", []byte(``), 0.0, 0.0)
	f.Fuzz(func(t *testing.T, text string, data []byte, progress, total float64) {
		x := &responder{}
		frames := []*busv1.Frame{{Body: &busv1.Frame_Progress{Progress: &busv1.Progress{Progress: progress, Total: total, Message: text}}}}
		if len(data) == 0 || jsontext.Value(data).IsValid() {
			frames = append(frames, &busv1.Frame{Body: &busv1.Frame_Log{Log: &busv1.Log{Level: 3, Logger: text, Data: data}}})
		}
		protocol.Forward([]byte(`"t"`), x, frames...)
		for _, n := range x.notified {
			if o := object(t, n); len(object(t, o["params"])) < 2 {
				t.Errorf("notification %q", n)
			}
		}
		e := fault.New(fault.Reason(text), "%s", text)
		if own, ok := members(data); ok && !has(own, "reason", "executed", "next", "retryAfterMs") {
			e = e.With(data)
		}
		for _, version := range []string{"", mcp.Modern, mcp.V20250326} {
			_, b := protocol.ErrorMessage(&mcp.Message{ID: []byte(`1`)}, version, e)
			object(t, object(t, b)["error"])
		}
		s := server(t)
		r := &protocol.Request{Message: &mcp.Message{Kind: mcp.Request, ID: []byte("1"), Method: mcp.MethodToolsCall}, Version: mcp.Modern}
		if _, ok := members(data); ok {
			s.Answer(r, x, &gateway.Answer{InputRequired: &busv1.InputRequired{InputRequests: data, RequestState: []byte(text)}})
			object(t, object(t, x.responded[0])["result"])
		}
	})
}

// MCP requires progress to grow; a repeated call begins from the start.
func TestProgressGrows(t *testing.T) {
	t.Parallel()
	x := &responder{}
	var frames []*busv1.Frame
	for _, p := range []float64{0, 1, 1, 3, 2, math.NaN(), 4} {
		frames = append(frames, &busv1.Frame{Body: &busv1.Frame_Progress{Progress: &busv1.Progress{Progress: p}}})
	}
	protocol.Forward([]byte("1"), x, frames...)
	var got []string
	for _, n := range x.notified {
		got = append(got, string(object(t, object(t, n)["params"])["progress"]))
	}
	if want := []string{"0", "1", "3", "4"}; !slices.Equal(got, want) {
		t.Errorf("progress %v, want %v", got, want)
	}
	protocol.Forward(nil, x, frames...)
	if len(x.notified) != 4 {
		t.Error("progress without a token")
	}
}
