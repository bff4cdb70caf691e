package model_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/model"
)

// Answers of the two APIs, as documented.
const (
	openAIAnswer = `{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"gpt-x-2026","system_fingerprint":"fp","choices":[{"index":0,"message":{"role":"assistant","content":"A protocol.","refusal":null,"annotations":[]},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}}`
	claudeAnswer = `{"id":"msg_1","type":"message","role":"assistant","model":"claude-x-2026","content":[{"type":"text","text":"A protocol."}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":9,"output_tokens":3}}`
)

// conversation has every kind of content.
const conversation = `{"systemPrompt":"Be brief.","maxTokens":100000,"temperature":1.5,"stopSequences":["END"],
 "modelPreferences":{"hints":[{"name":"other"},{"name":"BIG"}],"speedPriority":1},
 "tools":[{"name":"weather","description":"Weather","inputSchema":{"type":"object"}}],"toolChoice":{"mode":"required"},
 "metadata":{"x":1},"includeContext":"none",
 "messages":[
  {"role":"user","content":[{"type":"text","text":"What is this?"},{"type":"image","data":"aW1n","mimeType":"image/png"}]},
  {"role":"assistant","content":{"type":"tool_use","id":"c1","name":"weather","input":{"city":"Łódź"}}},
  {"role":"user","content":[{"type":"tool_result","toolUseId":"c1","content":[{"type":"text","text":"rain"}],"isError":true}]}]}`

func TestRequests(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		provider, params string
		answer           string
		path, body       string
		header           map[string]string
	}{
		"openai, the founding documents' question": {"openai", params, openAIAnswer, "POST /v1/chat/completions",
			`{"max_tokens":100,"messages":[{"content":"Что такое MCP?","role":"user"}],"model":"small","temperature":0.7}`,
			map[string]string{"Authorization": "Bearer " + key, "Content-Type": "application/json"}},
		"anthropic, the founding documents' question": {"anthropic", params, claudeAnswer, "POST /v1/v1/messages",
			`{"max_tokens":100,"messages":[{"content":[{"text":"Что такое MCP?","type":"text"}],"role":"user"}],"model":"small","temperature":0.7}`,
			map[string]string{"X-Api-Key": key, "Anthropic-Version": "2023-06-01", "Authorization": ""}},
		"openai, everything": {"openai", conversation, openAIAnswer, "POST /v1/chat/completions",
			`{"max_tokens":8192,"messages":[{"content":"Be brief.","role":"system"},` +
				`{"content":[{"text":"What is this?","type":"text"},{"image_url":{"url":"data:image/png;base64,aW1n"},"type":"image_url"}],"role":"user"},` +
				`{"content":null,"role":"assistant","tool_calls":[{"function":{"arguments":"{\"city\":\"Łódź\"}","name":"weather"},"id":"c1","type":"function"}]},` +
				`{"content":"The tool failed.\nrain","role":"tool","tool_call_id":"c1"}],"model":"very-big","stop":["END"],"temperature":1.5,"tool_choice":"required",` +
				`"tools":[{"function":{"description":"Weather","name":"weather","parameters":{"type":"object"}},"type":"function"}]}`, nil},
		"anthropic, everything": {"anthropic", conversation, claudeAnswer, "POST /v1/v1/messages",
			`{"max_tokens":8192,"messages":[{"content":[{"text":"What is this?","type":"text"},{"source":{"data":"aW1n","media_type":"image/png","type":"base64"},"type":"image"}],"role":"user"},` +
				`{"content":[{"id":"c1","input":{"city":"Łódź"},"name":"weather","type":"tool_use"}],"role":"assistant"},` +
				`{"content":[{"content":[{"text":"rain","type":"text"}],"is_error":true,"tool_use_id":"c1","type":"tool_result"}],"role":"user"}],` +
				`"model":"very-big","stop_sequences":["END"],"system":"Be brief.","temperature":1,"tool_choice":{"type":"any"},` +
				`"tools":[{"description":"Weather","input_schema":{"type":"object"},"name":"weather"}]}`, nil},
		"openai, sound": {"openai", `{"maxTokens":1,"messages":[{"role":"user","content":{"type":"audio","data":"aW1n","mimeType":"audio/mpeg"}}]}`, openAIAnswer, "POST /v1/chat/completions",
			`{"max_tokens":1,"messages":[{"content":[{"input_audio":{"data":"aW1n","format":"mp3"},"type":"input_audio"}],"role":"user"}],"model":"small"}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := serve(t, says(200, c.answer))
			s := start(t, model.Env{Provider: c.provider, URL: u.URL + "/v1/", Name: "small, very-big"})
			got, err := s.sample(c.params, 10*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(got, `{"role":"assistant","content":{"type":"text","text":"A protocol."},"model":"`) || !strings.Contains(got, `"stopReason":"endTurn"`) {
				t.Errorf("answered %s", got)
			}
			path, header, body := u.asked(t)
			if path != c.path || body != c.body {
				t.Errorf("asked %s\n got %s\nwant %s", path, body, c.body)
			}
			for name, want := range c.header {
				if header.Get(name) != want {
					t.Errorf("%s: %q", name, header.Get(name))
				}
			}
		})
	}
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	openai := func(message, reason string) string {
		return `{"model":"m","choices":[{"message":` + message + `,"finish_reason":"` + reason + `"}]}`
	}
	claude := func(content, reason string) string {
		return `{"type":"message","model":"m","content":` + content + `,"stop_reason":"` + reason + `"}`
	}
	call := `{"id":"c1","type":"function","function":{"name":"weather","arguments":"{\"n\":9007199254740993}"}}`
	for name, c := range map[string]struct{ provider, answer, want string }{
		"openai cut": {"openai", openai(`{"content":"A"}`, "length"), `{"type":"text","text":"A"},"model":"m","stopReason":"maxTokens"`},
		"openai tool": {"openai", openai(`{"content":null,"tool_calls":[`+call+`]}`, "tool_calls"),
			`{"type":"tool_use","id":"c1","name":"weather","input":{"n":9007199254740993}},"model":"m","stopReason":"toolUse"`},
		"openai text and tool": {"openai", openai(`{"content":"Let me see","tool_calls":[`+call+`]}`, "tool_calls"), `[{"text":"Let me see","type":"text"}`},
		"openai filtered":      {"openai", openai(`{"content":""}`, "content_filter"), `{"type":"text","text":""},"model":"m","stopReason":"contentFilter"`},
		"openai refusal":       {"openai", openai(`{"content":null,"refusal":"No."}`, "stop"), `{"type":"text","text":"No."},"model":"m","stopReason":"refusal"`},
		"openai new reason":    {"openai", openai(`{"content":"A"}`, "later"), `"stopReason":"later"`},
		"claude two texts":     {"anthropic", claude(`[{"type":"text","text":"A"},{"type":"thinking","thinking":"hm"},{"type":"text","text":"B"}]`, "stop_sequence"), `{"type":"text","text":"AB"},"model":"m","stopReason":"stopSequence"`},
		"claude tool":          {"anthropic", claude(`[{"type":"tool_use","id":"t","name":"weather","input":{"a":1}}]`, "tool_use"), `{"type":"tool_use","id":"t","name":"weather","input":{"a":1}},"model":"m","stopReason":"toolUse"`},
		"claude nothing":       {"anthropic", claude(`[]`, "max_tokens"), `{"type":"text","text":""},"model":"m","stopReason":"maxTokens"`},
		"claude refusal":       {"anthropic", claude(`[]`, "refusal"), `"stopReason":"refusal"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := serve(t, says(200, c.answer))
			got, err := start(t, model.Env{Provider: c.provider, URL: u.URL, Name: "m"}).sample(params, 10*time.Second)
			if want := strings.ReplaceAll(c.want, `{"text":"Let me see","type":"text"}`, `{"type":"text","text":"Let me see"}`); err != nil || !strings.Contains(got, want) {
				t.Errorf("%s %v\nwant %s", got, err, want)
			}
		})
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	openai := func(kind, message string) string {
		return `{"error":{"message":"` + message + `","type":"` + kind + `","param":null,"code":"` + kind + `"}}`
	}
	claude := func(kind, message string) string {
		return `{"type":"error","error":{"type":"` + kind + `","message":"` + message + `"},"request_id":"req_1"}`
	}
	after := func(name, value string, then http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set(name, value)
			then(w, r)
		}
	}
	cut := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	breaks := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write([]byte(`{"choices":`))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	for name, c := range map[string]struct {
		provider string
		answer   http.HandlerFunc
		reason   fault.Reason
		executed fault.Executed
		says     string
		after    time.Duration
	}{
		"openai, a wrong key":         {"openai", says(401, openai("invalid_api_key", "Incorrect API key provided: "+key)), fault.Unavailable, fault.No, "report this to the operator", 0},
		"anthropic, a wrong key":      {"anthropic", says(401, claude("authentication_error", "invalid x-api-key")), fault.Unavailable, fault.No, "BUSBAR_MODEL_API_KEY", 0},
		"anthropic, no permission":    {"anthropic", says(403, claude("permission_error", "no")), fault.Unavailable, fault.No, "BUSBAR_MODEL_API_KEY", 0},
		"openai, no such model":       {"openai", says(404, openai("model_not_found", "The model does not exist")), fault.Unavailable, fault.No, "BUSBAR_MODEL_NAME", 0},
		"openai, too fast":            {"openai", after("Retry-After", "7", says(429, openai("rate_limit_exceeded", "slow"))), fault.RateLimited, fault.No, "reached its rate limit", 7 * time.Second},
		"openai, too fast, to the ms": {"openai", after("Retry-After-Ms", "250", says(429, openai("rate_limit_exceeded", "slow"))), fault.RateLimited, fault.No, "later", 250 * time.Millisecond},
		"openai, no credit":           {"openai", says(429, openai("insufficient_quota", "You exceeded your current quota")), fault.Unavailable, fault.No, "no credit", 0},
		"anthropic, too fast forever": {"anthropic", after("Retry-After", "9999999", says(429, claude("rate_limit_error", "slow"))), fault.RateLimited, fault.No, "later", time.Hour},
		"anthropic, overloaded":       {"anthropic", after("Retry-After", "2", says(529, claude("overloaded_error", "Overloaded"))), fault.Unavailable, fault.No, "overloaded", 2 * time.Second},
		"openai, bad request":         {"openai", says(400, openai("invalid_request_error", "max_tokens is too large\\r\\n\\u001b[2J\\u202e for "+key)), fault.InvalidParams, fault.No, "max_tokens is too large", 0},
		"anthropic, bad request":      {"anthropic", says(400, claude("invalid_request_error", "messages: roles must alternate")), fault.InvalidParams, fault.No, "roles must alternate", 0},
		"anthropic, too large":        {"anthropic", says(413, "<html>"), fault.InvalidParams, fault.No, "gives no reason", 0},
		"a defect there":              {"openai", says(500, openai("server_error", "oops")), fault.Unavailable, fault.Unknown, "status 500", 0},
		"a gateway before it":         {"openai", says(502, "<html>Bad gateway</html>"), fault.Unavailable, fault.Unknown, "status 502", 0},
		"a redirect":                  {"openai", after("Location", "http://169.254.169.254/latest/meta-data", says(307, "")), fault.Unavailable, fault.No, "redirects", 0},
		"not JSON":                    {"openai", says(200, "<html>Welcome</html>"), fault.Unavailable, fault.Yes, "answer of the model's provider is not valid", 0},
		"JSON of something else":      {"openai", says(200, `{"ok":true}`), fault.Unavailable, fault.Yes, "no choices", 0},
		"the other API's JSON":        {"anthropic", says(200, openAIAnswer), fault.Unavailable, fault.Yes, "not a message", 0},
		"a tool used wrongly":         {"openai", says(200, `{"choices":[{"message":{"tool_calls":[{"id":"1","function":{"name":"x","arguments":"{"}}]}}]}`), fault.Unavailable, fault.Yes, "not a JSON object", 0},
		"huge":                        {"openai", says(200, `{"choices":"`+strings.Repeat("x", 9<<20)+`"}`), fault.ResultTooLarge, fault.Yes, "8 MiB", 0},
		"no answer at all":            {"openai", cut, fault.Unavailable, fault.Unknown, "broke", 0},
		"broken off":                  {"openai", breaks, fault.Unavailable, fault.Yes, "broke off", 0},
		"a hang":                      {"openai", hang, fault.DeadlineExceeded, fault.Unknown, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := serve(t, c.answer)
			s := start(t, model.Env{Provider: c.provider, URL: u.URL, Name: "m"})
			atMost := 10 * time.Second
			if c.reason == fault.DeadlineExceeded {
				atMost = 4 * time.Second // the way to the service may use some of it
			}
			got, err := s.sample(params, atMost)
			if err == nil {
				t.Fatal(got)
			}
			if err.Reason != c.reason || err.Executed != c.executed || !strings.Contains(err.Message, c.says) || err.RetryAfter != c.after {
				t.Errorf("%s %s %v %s", err.Reason, err.Executed, err.RetryAfter, err.Message)
			}
			if c.reason != fault.InvalidParams {
				bustest.Eventually(t, "the log says why", func() bool { return strings.Contains(s.log.String(), "the model did not answer") })
			}
			for where, text := range map[string]string{"the error": err.Error() + string(err.Data), "the log": s.log.String()} {
				if strings.Contains(text, key) || strings.Contains(err.Message, "127.0.0.1") || strings.ContainsAny(err.Message, "\r\n\x1b\u202e") {
					t.Errorf("%s says %s", where, text)
				}
			}
		})
	}
	t.Run("nobody there", func(t *testing.T) {
		t.Parallel()
		u := serve(t, hang)
		s := start(t, model.Env{Provider: "openai", URL: u.URL, Name: "m"})
		u.Close()
		if _, err := s.sample(params, 10*time.Second); err == nil || err.Reason != fault.Unavailable || err.Executed != fault.No || strings.Contains(err.Message, "127.0.0.1") {
			t.Errorf("%v", err)
		}
	})
}

func TestMistakesOfCallers(t *testing.T) {
	t.Parallel()
	u := serve(t, says(200, openAIAnswer))
	s := start(t, model.Env{Provider: "openai", URL: u.URL, Name: "m"})
	message := func(m string) string { return `{"maxTokens":1,"messages":[` + m + `]}` }
	for params, want := range map[string]string{
		`{}`:             "params.messages is missing",
		`{"messages":5}`: "params.messages has",
		`{"messages":[{"role":"user","content":{"type":"text","text":"x"}}]}`:                                                         "params.maxTokens must be at least 1",
		message(`{"role":"system","content":{"type":"text","text":"x"}}`):                                                             "params.messages[0].role",
		message(`{"role":"user","content":[]}`):                                                                                       "params.messages[0].content is empty",
		message(`{"role":"user","content":{"type":"video"}}`):                                                                         "params.messages[0].content[0] has an unknown type",
		message(`{"role":"user","content":{"type":"image","data":"!!","mimeType":"image/png"}}`):                                      "params.messages[0].content.data has",
		message(`{"role":"user","content":{"type":"image","mimeType":"image/png"}}`):                                                  "needs data",
		message(`{"role":"user","content":{"type":"audio","data":"aW1n","mimeType":"audio/midi"}}`):                                   "does not support audio/midi",
		message(`{"role":"user","content":{"type":"tool_use","id":"1","name":"x","input":{}}}`):                                       "only allowed for the assistant",
		message(`{"role":"assistant","content":{"type":"tool_result","toolUseId":"1","content":[]}}`):                                 "only allowed for the user",
		message(`{"role":"user","content":[{"type":"tool_result","toolUseId":"1","content":[]},{"type":"text","text":"x"}]}`):         "must contain nothing else",
		message(`{"role":"user","content":{"type":"tool_result","toolUseId":"1","content":[{"type":"image","data":"aW1n"}]}}`):        "does not support image in results of tools",
		`{"maxTokens":1,"temperature":-1,"messages":[{"role":"user","content":{"type":"text","text":"x"}}]}`:                          "params.temperature",
		`{"maxTokens":1,"toolChoice":{"mode":"required"},"messages":[{"role":"user","content":{"type":"text","text":"x"}}]}`:          "params.toolChoice.mode is required, but",
		`{"maxTokens":1,"toolChoice":{"mode":"maybe"},"messages":[{"role":"user","content":{"type":"text","text":"x"}}]}`:             "auto, required or none",
		`{"maxTokens":1,"tools":[{"name":"x","inputSchema":true}],"messages":[{"role":"user","content":{"type":"text","text":"x"}}]}`: "params.tools[0] needs",
		fmt.Sprintf(`{"maxTokens":1e99,"messages":[{"role":"user","content":{"type":"text","text":"%s"}}]}`, strings.Repeat("x", 10)): "params.maxTokens has",
		`{"maxTokens":1,"messages":[{"role":"user","content":{"type":"text","text":"x"}}],"maxTokens":2}`:                             "messages and maxTokens",
	} {
		if got, err := s.sample(params, 10*time.Second); err == nil || err.Reason != fault.InvalidParams || err.Executed != fault.No || !strings.Contains(err.Message, want) {
			t.Errorf("%s\n%s %v; want %s", params, got, err, want)
		}
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for says, cfg := range map[string]model.Env{
		"set BUSBAR_MODEL_PROVIDER":       {},
		"to openai or anthropic":          {Provider: "gemini", Name: "m"},
		"BUSBAR_MODEL_NAME":               {Provider: "openai", APIKey: key},
		"BUSBAR_MODEL_API_KEY is not set": {Provider: "anthropic", Name: "m"},
		"is not https":                    {Provider: "openai", Name: "m", URL: "http://models.example/v1", APIKey: key},
		"contains a user or password":     {Provider: "openai", Name: "m", URL: "https://u:" + key + "@models.example/v1"},
		"is not a valid URL":              {Provider: "openai", Name: "m", URL: "https://models.example/v1?key=" + key},
		"set one such as":                 {Provider: "openai", Name: "m", URL: "models.example"},
		"BUSBAR_MODEL_MAX_TOKENS is -1":   {Provider: "openai", Name: "m", APIKey: key, MaxTokens: -1},
	} {
		if _, err := model.New(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), key) {
			t.Errorf("%v; want %s", err, says)
		}
	}
	for _, cfg := range []model.Env{
		{Provider: "openai", Name: "m", APIKey: key}, {Provider: "anthropic", Name: "m", APIKey: key},
		{Provider: "openai", Name: "llama", URL: "http://localhost:11434/v1"}, {Provider: "openai", Name: "m", URL: "https://models.example/v1"},
	} {
		if _, err := model.New(t.Context(), cfg); err != nil {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}

// OpenAI itself requires the newer name of the limit.
func TestLimitOfOpenAI(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 1)
	cfg := model.Env{Provider: "openai", Name: "m"}
	s := startOver(t, cfg, func(body string) { asked <- body })
	if _, err := s.sample(params, 10*time.Second); err != nil {
		t.Fatal(err)
	}
	if body := <-asked; !strings.Contains(body, `"max_completion_tokens":100`) || strings.Contains(body, `"max_tokens"`) {
		t.Error(body)
	}
}
