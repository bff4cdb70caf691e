package stdio_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/edge/door/stdio"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

// reliability-security.md M-37, 53, 54: a malformed line is answered and does
// no other harm.
func TestMalformedLines(t *testing.T) {
	t.Parallel()
	c := start(t, nil)
	call := edgetest.Call("1", "safe", "{}")
	const parse, invalid, params = mcp.CodeParseError, mcp.CodeInvalidRequest, mcp.CodeInvalidParams
	for name, l := range map[string]struct {
		line string
		code int
	}{
		"not JSON":            {"hello", parse},
		"half":                {call[:60], parse},
		"two messages":        {call + call, parse},
		"bytes behind":        {call + "x", parse},
		"member twice":        {strings.Replace(call, `"name":`, `"name":"echo","name":`, 1), parse},
		"bad UTF-8":           {strings.Replace(call, `{}`, "{\"a\":\"\xff\"}", 1), parse},
		"NUL":                 {call + "\x00", parse},
		"byte order mark":     {"\xef\xbb\xbf" + call, parse},
		"never closed":        {strings.Repeat("[", 40), parse},
		"deep":                {strings.Repeat("[", 100_000), invalid},
		"empty batch":         {"[]", invalid},
		"batch":               {"[" + call + "]", invalid},
		"a string":            {`"x"`, invalid},
		"null":                {"null", invalid},
		"wrong version":       {strings.Replace(call, `"2.0"`, `"1.0"`, 1), invalid},
		"no version":          {strings.Replace(call, `"jsonrpc":"2.0",`, ``, 1), invalid},
		"no method":           {`{"jsonrpc":"2.0","id":1}`, invalid},
		"method capitalised":  {strings.Replace(call, `"method"`, `"Method"`, 1), invalid},
		"id 1.5":              {edgetest.Call("1.5", "safe", "{}"), invalid},
		"id null":             {edgetest.Call("null", "safe", "{}"), invalid},
		"id 2^53":             {edgetest.Call("9007199254740992", "safe", "{}"), invalid},
		"id an object":        {edgetest.Call("{}", "safe", "{}"), invalid},
		"request without id":  {strings.Replace(call, `"id":1,`, ``, 1), invalid},
		"notification with":   {`{"jsonrpc":"2.0","id":1,"method":"notifications/cancelled"}`, invalid},
		"result and method":   {strings.Replace(call, `"method"`, `"result":{},"method"`, 1), invalid},
		"params a list":       {`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":[]}`, params},
		"over the limit":      {`{"a":"` + strings.Repeat("x", 2<<20) + `"}`, invalid},
		"unknown version":     {strings.Replace(call, mcp.Modern, "1900-01-01", 1), mcp.CodeUnsupportedVersion},
		"no capabilities":     {`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"` + mcp.MetaProtocolVersion + `":"` + mcp.Modern + `"}}}`, params},
		"discover, no _meta":  {edgetest.Legacy("1", mcp.MethodDiscover, ""), params},
		"initialize, modern":  {edgetest.Request("1", mcp.MethodInitialize, `"protocolVersion":"2026-07-28"`), mcp.CodeMethodNotFound},
		"initialize, nothing": {edgetest.Legacy("1", mcp.MethodInitialize, ""), params},
	} {
		t.Run(name, func(t *testing.T) {
			m := c.ask(l.line)
			if m.Code() != l.code || m.Error.Data.Executed != "no" {
				t.Fatalf("answer %+v, %+v", m, m.Error)
			}
			c.lives()
		})
	}
	if n := c.svc.Calls.Load(); n != int64(32) {
		t.Errorf("%d calls ran, want one after each line", n)
	}
}

func TestLines(t *testing.T) {
	t.Parallel()
	c := start(t, func(cfg *stdio.Config) { cfg.Limits = mcp.Limits{Bytes: 1000} })
	exact := func(size int) string {
		base := edgetest.Call("1", "echo", `{"a":""}`)
		return strings.Replace(base, `"a":""`, `"a":"`+strings.Repeat("x", size-len(base))+`"`, 1)
	}
	for name, l := range map[string]struct {
		line string
		code int
	}{
		"CRLF": {edgetest.Call("1", "echo", "{}") + "\r", 0}, "blanks around": {"  \t" + edgetest.Call("1", "echo", "{}") + "  ", 0},
		"at the limit": {exact(1000), 0}, "at the limit, CRLF": {exact(1000) + "\r", 0}, "one over": {exact(1001), mcp.CodeInvalidRequest},
		"two over": {exact(1002), mcp.CodeInvalidRequest}, "far over": {strings.Repeat("x", 3<<20), mcp.CodeInvalidRequest},
	} {
		t.Run(name, func(t *testing.T) {
			m := c.ask(l.line)
			if m.Code() != l.code || l.code != 0 && m.Error.Data.Reason != "too_large" {
				t.Errorf("answer %+v, %+v", m, m.Error)
			}
			c.lives()
		})
	}
	t.Run("empty ones", func(t *testing.T) {
		c.send("", "  ", "\r", "\t")
		c.lives() // and nothing came before
	})
	t.Run("many in one write", func(t *testing.T) {
		var lines []string
		for i := range 50 {
			lines = append(lines, edgetest.Call(fmt.Sprint(i), "echo", fmt.Sprintf(`{"n":%d}`, i)))
		}
		c.send(strings.Join(lines, "\n"))
		for range 50 {
			if m := c.await(); m.Text() != `{"n":`+string(m.ID)+`}` {
				t.Errorf("answer %+v", m)
			}
		}
	})
	t.Run("byte by byte", func(t *testing.T) {
		for _, b := range []byte(edgetest.Call("1", "echo", "{}") + "\n") {
			_, _ = c.in.Write([]byte{b})
		}
		if m := c.await(); m.Text() != "{}" {
			t.Errorf("answer %+v", m)
		}
	})
}

func TestLastLineNeedsNoEnd(t *testing.T) {
	t.Parallel()
	for name, last := range map[string]string{"whole": edgetest.Call("9", "echo", "{}"), "half": edgetest.Call("9", "echo", "{}")[:50]} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := start(t, func(cfg *stdio.Config) { cfg.Grace = bustest.Patience })
			_, _ = io.WriteString(c.in, last)
			_ = c.in.Close()
			if m := c.await(); name == "whole" && m.Text() != "{}" || name == "half" && m.Code() != mcp.CodeParseError {
				t.Errorf("answer %+v", m)
			}
			if err := c.finished(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestBothErasInterleaved(t *testing.T) {
	t.Parallel()
	c := start(t, nil)
	modern := func() {
		t.Helper()
		if m := c.ask(edgetest.Call("1", "echo", `{"m":1}`)); m.Text() != `{"m":1}` || m.Field("resultType") != `"complete"` {
			t.Errorf("modern: %s", m.Result)
		}
	}
	legacy := func(version string) {
		t.Helper()
		m := c.ask(edgetest.LegacyCall("1", "strict", `{"text":1}`))
		if asResult := m.Field("isError") == "true"; m.Field("resultType") != "" || asResult != (version >= mcp.V20251125) {
			t.Errorf("legacy: %+v", m)
		}
	}
	modern()
	legacy(mcp.V20250326) // the client has not said otherwise
	if m := c.ask(edgetest.Request("1", mcp.MethodDiscover, "")); !strings.Contains(m.Field("supportedVersions"), mcp.Modern) {
		t.Errorf("discover: %s", m.Result)
	}
	if m := c.ask(edgetest.Initialize(mcp.V20250618)); m.Field("protocolVersion") != `"2025-06-18"` || m.Field("serverInfo", "name") != `"busbar"` {
		t.Errorf("initialize: %s", m.Result)
	}
	c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	legacy(mcp.V20250618)
	modern()
	// Again: the last handshake counts, and each change is still announced once.
	if m := c.ask(edgetest.Initialize(mcp.V20251125)); m.Field("protocolVersion") != `"2025-11-25"` {
		t.Errorf("second initialize: %s", m.Result)
	}
	legacy(mcp.V20251125)
	modern()
	if m := c.ask(edgetest.Legacy("1", "ping", "")); string(m.Result) != "{}" {
		t.Errorf("ping: %s", m.Result)
	}
	c.send(`{"jsonrpc":"2.0","id":5,"result":{}}`, `{"jsonrpc":"2.0","method":"notifications/x"}`) // neither gets an answer
	c.lives()

	next := service.New("next", service.WithLogger(bustest.Logger(t)))
	next.AddPrompt(mcp.Prompt{Name: "new"}, func(context.Context, *service.Call, map[string]string) ([]mcp.PromptMessage, error) { return nil, nil }, nil)
	edgetest.Serve(t, bustest.Connect(t, c.bus), next)
	if m := c.await(); m.Method != mcp.NotifyPromptsChanged || m.Params != nil {
		t.Errorf("told of %+v", m)
	}
	c.lives()
}

func TestLogLevel(t *testing.T) {
	t.Parallel()
	c := start(t, nil)
	c.ask(edgetest.Initialize(mcp.V20250618))
	for level, want := range map[string]int{"debug": 2, "info": 1, "emergency": 0} {
		if m := c.ask(edgetest.Legacy("1", "logging/setLevel", `"level":"`+level+`"`)); m.Error != nil {
			t.Fatal(m.Error)
		}
		c.send(edgetest.LegacyCall("2", "progress", "{}"))
		for range want {
			if m := c.await(); m.Method != mcp.NotifyMessage {
				t.Errorf("%s: %+v", level, m)
			}
		}
		if m := c.await(); m.Text() != "done" {
			t.Errorf("%s: %+v", level, m)
		}
	}
}

func TestCancellation(t *testing.T) {
	t.Parallel()
	c := start(t, nil)
	cancel := func(id string) string {
		return `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `,"reason":"enough"}}`
	}
	t.Run("in flight", func(t *testing.T) {
		c.send(edgetest.Call("1", "hold", "{}"))
		receive(t, "the call starts", c.svc.Started)
		c.send(cancel(`"1"`), cancel("2"), cancel("1"))
		receive(t, "the handler's context ends", c.svc.Ended)
		c.lives() // and no answer to the cancelled one came before
	})
	// The cancellation comes right after its request, and must find it.
	t.Run("at once", func(t *testing.T) {
		for i := range 50 {
			id := fmt.Sprint(100 + i)
			c.send(edgetest.Call(id, "hold", "{}") + "\n" + cancel(id))
		}
		c.lives()
		// The calls that had reached the service were cancelled there.
		bustest.Eventually(t, "no call is held", func() bool { return len(c.svc.Started) == len(c.svc.Ended) })
	})
	t.Run("a subscription", func(t *testing.T) {
		if m := c.ask(edgetest.Request("7", mcp.MethodListen, `"notifications":{"toolsListChanged":true}`)); m.Method != mcp.NotifyAcknowledged {
			t.Fatalf("%+v", m)
		}
		c.send(cancel("7"))
		c.lives()
		bustest.Eventually(t, "the id is free", func() bool {
			return c.ask(edgetest.Request("7", mcp.MethodToolsList, "")).Error == nil
		})
	})
	t.Run("malformed", func(t *testing.T) {
		c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled"}`, cancel("{}"), cancel("[1]"))
		c.lives()
	})
}

func TestDuplicateID(t *testing.T) {
	t.Parallel()
	c := start(t, nil)
	c.send(edgetest.Call("1", "hold", "{}") + "\n" + edgetest.Call("1", "safe", "{}"))
	if m := c.await(); m.Code() != mcp.CodeInvalidRequest || string(m.ID) != "1" {
		t.Errorf("answer %+v", m)
	}
	c.svc.Release <- struct{}{}
	if m := c.await(); m.Text() != "released" {
		t.Errorf("answer %+v", m)
	}
	if m := c.ask(edgetest.Call("1", "safe", "{}")); m.Text() != "safe" {
		t.Errorf("answer %+v", m)
	}
}

func TestListen(t *testing.T) {
	t.Parallel()
	c := start(t, func(cfg *stdio.Config) { cfg.Grace = bustest.Patience })
	for _, id := range []string{"1", `"b"`} {
		if m := c.ask(edgetest.Request(id, mcp.MethodListen, `"notifications":{"promptsListChanged":true}`)); m.Method != mcp.NotifyAcknowledged || m.Param("_meta", mcp.MetaSubscriptionID) != id {
			t.Fatalf("%+v", m)
		}
	}
	next := service.New("next", service.WithLogger(bustest.Logger(t)))
	next.AddPrompt(mcp.Prompt{Name: "new"}, func(context.Context, *service.Call, map[string]string) ([]mcp.PromptMessage, error) { return nil, nil }, nil)
	edgetest.Serve(t, bustest.Connect(t, c.bus), next)
	told := map[string]int{}
	for range 2 {
		m := c.await()
		told[m.Method+m.Param("_meta", mcp.MetaSubscriptionID)]++
	}
	_ = c.in.Close()
	for range 2 {
		m := c.await()
		if m.Field("_meta", mcp.MetaSubscriptionID) != string(m.ID) {
			t.Errorf("end %+v", m)
		}
		told["end"+string(m.ID)]++
	}
	for _, id := range []string{"1", `"b"`} {
		if told[mcp.NotifyPromptsChanged+id] != 1 || told["end"+id] != 1 {
			t.Errorf("told %v", told)
		}
	}
	if err := c.finished(); err != nil {
		t.Error(err)
	}
}

// Beyond a number of requests in flight, more are refused, and there is still room to
// cancel one.
func TestInFlight(t *testing.T) {
	t.Parallel()
	c := start(t, nil)
	listen := func(id int) string {
		return edgetest.Request(fmt.Sprint(id), mcp.MethodListen, `"notifications":{}`)
	}
	const limit = 1024
	for i := range limit {
		if m := c.ask(listen(i)); m.Method != mcp.NotifyAcknowledged {
			t.Fatalf("%d: %+v", i, m)
		}
	}
	if m := c.ask(listen(limit)); m.Error == nil || m.Error.Data.Reason != "overloaded" {
		t.Errorf("one more: %+v", m)
	}
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`)
	bustest.Eventually(t, "there is room again", func() bool {
		return c.ask(edgetest.Request(`"room"`, mcp.MethodToolsList, "")).Error == nil
	})
}

func TestProgress(t *testing.T) {
	t.Parallel()
	c := start(t, nil)
	c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"progress",` + edgetest.Meta(`"progressToken":"t"`) + `}}`)
	for _, want := range []string{"1", "2"} {
		if m := c.await(); m.Method != mcp.NotifyProgress || m.Param("progress") != want || m.Param("progressToken") != `"t"` {
			t.Fatalf("got %+v", m)
		}
	}
	if m := c.await(); m.Text() != "done" {
		t.Errorf("answer %+v", m)
	}
}

// A legacy client is asked on the one output, and answers on the one input.
func TestLegacyClientIsAsked(t *testing.T) {
	t.Parallel()
	c := start(t, nil)
	c.ask(edgetest.Legacy("0", mcp.MethodInitialize, `"protocolVersion":"2025-06-18","capabilities":{"elicitation":{}}`))
	q := c.ask(edgetest.LegacyCall("1", "remember", "{}"))
	if q.Method != mcp.MethodElicit || q.ID == nil {
		t.Fatalf("asked %+v", q)
	}
	c.lives() // a question does not block others
	c.send(`{"jsonrpc":"2.0","id":"nobody.asked","result":{}}`, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	if m := c.ask(`{"jsonrpc":"2.0","id":` + string(q.ID) + `,"result":{"action":"accept","content":{}}}`); m.Text() != "kept secret" || string(m.ID) != "1" {
		t.Errorf("answer %+v", m)
	}
	c.send(`{"jsonrpc":"2.0","id":` + string(q.ID) + `,"result":{"action":"accept"}}`) // late
	c.lives()
}
